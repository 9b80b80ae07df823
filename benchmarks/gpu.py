"""Training and ranking on a CUDA device: the cases of docs/performance.md, timed.

    ACCORD_DATA=... python benchmarks/gpu.py [CASE ...]

Each case is trained twice in one process; the second time is reported, the first (with imports, compilation and the
first touch of memory) beside it. `train` is the training loop alone, sampling, recording and checks included.
"""

from __future__ import annotations

import json
import sys
import time

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


def timed(data: Dataset, run: RunSpec) -> tuple[float, float]:
    """Seconds of training and of ranking every user of the test."""
    torch.cuda.synchronize()
    method, states = train_stack(data, run, CUDA)
    torch.cuda.synchronize()
    seconds = sum(state.seconds for state in states)
    relevant, train = Relevant.of_test(data, run.config.protocol), data.csr(data.train)
    ranker = Ranker.of(
        method.target, method.score_all, len(run.config.seeds), relevant.seen, train, run.config.protocol, CUDA
    )
    evaluate(ranker, relevant, [20])
    torch.cuda.synchronize()
    began = time.perf_counter()
    evaluate(ranker, relevant, [20])
    torch.cuda.synchronize()
    return seconds, time.perf_counter() - began


def main(names: list[str]) -> None:
    loaded: dict[str, Dataset] = {}
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
        first, (train, rank) = timed(data, run), timed(data, run)
        line = {
            "case": name, "train": round(train, 3), "first": round(first[0], 3), "rank": round(rank, 4),
            "target": target, "gigabytes": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
