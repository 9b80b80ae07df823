"""Training and ranking on a CUDA device: the cases of docs/performance.md, timed.

    ACCORD_DATA=... python benchmarks/gpu.py [CASE ...]

Each case is trained three times in one process. The second time is reported, the first (with compilation and the first
touch of memory) beside it; the third is profiled, once all cases are timed: whatever is started after a profile, in the
same process, is slower. `train` is the training loop alone, sampling, recording and checks
included, `later` the median of its epochs after the first. A command of its own:

    python benchmarks/gpu.py cold

trains the first case in three new processes with an empty folder of compiled kernels, which the later two find full.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from statistics import median
from typing import Any

import numpy as np
import torch
import when

from accord.data.interactions import Dataset, Interactions
from accord.data.load import load_named
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.stack import train_stack

CUDA = torch.device("cuda")
TARGETS = {  # case: (dataset, model, method, epochs, seconds of training asked for)
    "gmf-deca": ("ml-100k", "gmf", "deca", 20, 0.15),
    "gmf-deca-p": ("ml-100k", "gmf", "deca-p", 20, 0.3),
    "lightgcn-deca": ("ml-100k", "lightgcn", "deca", 20, 0.5),
    "cdae-deca": ("ml-100k", "cdae", "deca", 400, 1.0),
    "neumf-deca": ("ml-100k", "neumf", "deca", 20, None),
    "modcloth-gmf-deca": ("modcloth", "gmf", "deca", 40, 0.4),
    "adressa-gmf-deca": ("adressa", "gmf", "deca", 3, 0.2),
    "grid-144": ("ml-100k", "gmf", "deca", 20, 1.5),
    "electronics-shape": ("electronics-shape", "gmf", "deca", 15, 9.0),
}
KINDS = {  # what a kernel's time is counted as: the first whose pattern is in its name
    "Adam": "_adam|FusedOptimizer|FusedAdam",
    "rows and their products": "_dot|_take|_over_",
    "matrix products": "_two_layers|gemm|cutlass|splitK|cublas|spmm|cusparse",
    "zero gradients": "FillFunctor|Memset",
    "drawing epochs": "radix_sort|random|distribution|arange|gather|index_elementwise|CatArray|searchsorted|sort",
    "the loss": "_agreement|reduce_kernel|sigmoid",
    "weights to the device": "HtoD",
}


def electronics_shape() -> Dataset:
    """1,157,633 users, 9,560 items, 1.03 million interactions, as Electronics has; 75,000 users in the test."""
    rng = np.random.default_rng(0)
    users, items, n = 1_157_633, 9_560, 1_030_000
    weights = 1 / np.arange(1, items + 1) ** 0.8
    who = np.concatenate([rng.permutation(users)[:900_000], rng.integers(0, users, n - 900_000)])
    pair = np.unique(who * items + rng.choice(items, n, p=weights / weights.sum()))
    test = rng.choice(users, 75_000, replace=False)
    tested = test * items + rng.integers(0, items, len(test))
    tested = tested[~np.isin(tested, pair)]
    others = np.setdiff1d(np.arange(users), np.concatenate([pair, tested]) // items)  # known, but without history
    valid = others * items + rng.integers(0, items, len(others))

    def part(keys: np.ndarray) -> Interactions:
        return Interactions.of(keys // items, keys % items)

    return Dataset.of("electronics-shape", part(pair), part(valid), part(tested))


def varied(run: RunSpec) -> RunSpec:
    """The paper's grid with three seeds in one stack."""
    seeds, options = [], []
    for c1 in (1.0, 10.0, 100.0, 1000.0):
        for c2 in (1.0, 10.0, 100.0, 1000.0):
            for alpha in (0.0, 0.5, 1.0):
                for seed in (2019, 2020, 2021):
                    seeds.append(seed)
                    options.append({"method.c1": c1, "method.c2": c2, "method.alpha": alpha})
    return RunSpec(
        run.config.model_copy(update={"seeds": tuple(seeds), "varied": tuple(options)}), run.model, run.method
    )


def epochs_of(state: Any) -> list[float]:
    """The seconds of each epoch of a stage."""
    return [float(one) for one in np.diff([entry["seconds"] for entry in state.history], prepend=0)]


def timed(data: Dataset, run: RunSpec) -> dict[str, float]:
    """Seconds of training, of a later epoch of its last stage, and of ranking every user of the test."""
    torch.cuda.synchronize()
    method, states = train_stack(data, run, CUDA)
    torch.cuda.synchronize()
    train, later = sum(state.seconds for state in states), median(epochs_of(states[-1])[1:])
    relevant, known = Relevant.of_test(data, run.config.protocol), data.csr(data.train)
    ranker = Ranker.of(
        method.target, method.score_all, len(run.config.seeds), relevant.seen, known, run.config.protocol, CUDA
    )
    evaluate(ranker, relevant, [20])
    torch.cuda.synchronize()
    began = time.perf_counter()
    evaluate(ranker, relevant, [20])
    torch.cuda.synchronize()
    rank = time.perf_counter() - began
    return {"train": train, "later": later, "rank": rank, "ranked": len(relevant.users), "items": len(data.items)}


def profiled(data: Dataset, run: RunSpec) -> dict[str, float]:
    """Milliseconds of the device in one training, by kind of kernel."""
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=both) as found:
        train_stack(data, run, CUDA)
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    for one in found.key_averages():
        if one.device_type != torch.autograd.DeviceType.CUDA or one.key.startswith("Activity"):
            continue
        kind = next((kind for kind, names in KINDS.items() if re.search(names, one.key)), "the rest")
        spent[kind] += one.self_device_time_total / 1e3
    return {kind: round(spent[kind], 2) for kind in (*KINDS, "the rest")}


def cold() -> None:
    """The first training of a process, with kernels that were never compiled, and with those that were."""
    with tempfile.TemporaryDirectory() as folder:
        for kernels in ("compiled now", "found", "found"):
            done = subprocess.run(
                [sys.executable, __file__, next(iter(TARGETS))], env=os.environ | {"TRITON_CACHE_DIR": folder},
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
            line = json.loads(done.stdout.splitlines()[-1])
            print(json.dumps({"cold": line["case"], "kernels": kernels, "first": line["first"]}), flush=True)


def main(names: list[str]) -> None:
    if names == ["cold"]:
        return cold()
    loaded: dict[str, Dataset] = {}
    timings = []
    print(
        json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, **when.measured()}), flush=True
    )
    for name in names or list(TARGETS):
        dataset, model, method, epochs, target = TARGETS[name]
        if dataset not in loaded:
            loaded[dataset] = electronics_shape() if dataset == "electronics-shape" else load_named(dataset)
        data = loaded[dataset]
        options = {"train.early_stop": False, "train.batch_size": 2048}
        run = plan(data, model, method, "published", 1, options, epochs, None)
        run = varied(run) if name == "grid-144" else run
        torch.cuda.reset_peak_memory_stats()
        first, second = timed(data, run), timed(data, run)
        line = {
            "case": name, **{key: round(value, 4) for key, value in second.items()}, "first": round(first["train"], 3),
            "target": target, "gigabytes": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        }  # fmt: skip
        timings.append((line, data, run))
    for line, data, run in timings:
        print(json.dumps(line | {"device_ms": profiled(data, run)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
