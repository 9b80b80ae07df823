"""Steps of GMF with DeCA on a CUDA device where tables are large: every row at every step, or only those looked up.

    ACCORD_DATA=... python benchmarks/gpu_rows.py [INTERACTIONS ...]

On Adressa, on Electronics' shape, and on generated logs of so many interactions, with a user for 50 and an item for 100
of them. An epoch is drawn, stepped through and settled; of one with more than `STEPS` steps the rest is extrapolated.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import chain, islice
from pathlib import Path

import gpu
import torch
import when

import data
from accord.data.csr import IntArray
from accord.data.interactions import Dataset
from accord.data.load import load_named
from accord.nn import layers
from accord.training.plan import plan
from accord.training.stack import StackTraining

sys.path.append(str(Path(__file__).parent / "workers"))
from pairs import dataset

STEPS, HUGE = 1_000, 10**8
FORMS = {"adam": ("adam", False), "all rows": ("decoupled", False), "by rows": ("decoupled", True)}
WORTH = layers.WORTH_ROWS_ON_CUDA


def generated(interactions: int) -> Dataset:
    num_users, num_items = interactions // 50, interactions // 100
    users, items = (drawn if interactions >= HUGE else data.generated)(interactions, num_users, num_items)
    return dataset({"users": users, "items": items, "num_users": num_users, "num_items": num_items})


def drawn(num_pairs: int, num_users: int, num_items: int) -> tuple[IntArray, IntArray]:
    """What `data.generated` gives, a little less of it where pairs repeat, in seconds and not in minutes."""
    generator = torch.Generator(gpu.CUDA).manual_seed(0)

    def draw(size: int, power: float) -> torch.Tensor:
        weights = 1 / torch.arange(1, size + 1, device=gpu.CUDA, dtype=torch.float64) ** power
        bounds = weights[torch.randperm(size, generator=generator, device=gpu.CUDA)].cumsum(0)
        found = []
        for _ in range(10):
            places = torch.rand(num_pairs // 10, generator=generator, device=gpu.CUDA, dtype=torch.float64)
            found.append(torch.searchsorted(bounds, places * bounds[-1]).clamp_(max=size - 1))
        ids = torch.cat(found)
        ids[:size] = torch.arange(size, device=gpu.CUDA)
        return ids

    keys = torch.unique(draw(num_users, 0.5) * num_items + draw(num_items, 0.8))
    return (keys // num_items).cpu().numpy(), (keys % num_items).cpu().numpy()


def epoch(log: Dataset, form: str) -> dict[str, float]:
    optimiser, by_rows = FORMS[form]
    layers.WORTH_ROWS_ON_CUDA = WORTH if by_rows else float("inf")
    torch.cuda.reset_peak_memory_stats()
    rows = log.training_csr()
    options = {"train.batch_size": 2048, "train.early_stop": False, "protocol.optimiser": optimiser}
    run = plan(log, "gmf", "deca", "published", 1, options, 1, None)
    method = run.build(rows).to(gpu.CUDA)
    trainer = StackTraining(log, run, rows, method, gpu.CUDA).trainer(method)
    number = 0
    with trainer.steps.apart():
        trainer.optimizer.start()
        method.train()
        for _ in range(5):  # the last of which counts: before, kernels are compiled and steps of every shape recorded
            begin = time.perf_counter()
            batches = trainer.sampler.epoch()
            batches = chain([next(batches)], batches)
            torch.cuda.synchronize()
            drawn, first = time.perf_counter(), number
            for batch in islice(batches, STEPS):
                trainer.steps.take(batch, number)
                number += 1
            torch.cuda.synchronize()
            stepped = time.perf_counter()
            trainer.optimizer.settle()
            torch.cuda.synchronize()
            settled = time.perf_counter()
    rows = len(trainer.optimizer.by_rows)
    of, step = trainer.sampler.num_batches, (stepped - drawn) / (number - first)
    return {
        "draw": drawn - begin, "step": step, "settle": settled - stepped, "taken": number - first, "of": of,
        "epoch": drawn - begin + step * of + settled - stepped, "tables_by_rows": rows,
        "gigabytes": torch.cuda.max_memory_allocated() / 1e9,
    }  # fmt: skip


def main(sizes: list[int]) -> None:
    print(
        json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, **when.measured()}), flush=True
    )
    logs = {
        "adressa": lambda: load_named("adressa"),
        "electronics-shape": gpu.electronics_shape,
        **{f"{size:,}": lambda size=size: generated(size) for size in sizes},
    }
    for name, load in logs.items():
        log = load()
        shape = {"interactions": len(log.train), "users": len(log.users), "items": len(log.items)}
        for form in FORMS:
            print(json.dumps({"log": name, **shape, "form": form, **epoch(log, form)}), flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
