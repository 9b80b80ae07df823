"""Stacks of runs, cut to the memory that there is."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.experiment import train_stack
from accord.methods.base import Method
from accord.recommender import Recommender
from accord.runs import Run
from accord.training import Progress

MOST_RUNS = 256  # in one stack
CPU_BYTES = 4 * 2**30  # for one stack in main memory: a larger one is no faster


def train_all(
    data: Dataset,
    run: Run,
    device: torch.device,
    watch: Callable[[Progress], None] | None = None,
    each_epoch: Callable[[Run, Method, int], None] | None = None,
    say: Callable[[str], None] = print,
) -> Iterator[Recommender]:
    """Train and evaluate a stack in parts that fit. Where memory runs out all the same, go on in halves.

    `each_epoch` sees the part that is trained, its method and the epoch, in the last stage.
    """
    waiting = list(_parts_that_fit(run, data, device))
    while waiting:
        part = waiting.pop(0)
        try:
            seen = None if each_epoch is None else (lambda method, epoch, p=part: each_epoch(p, method, epoch))
            method, states = train_stack(data, part, device, watch=watch, each_epoch=seen)
            recommender = Recommender.of_training(part, data, method, states, {})
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            size = len(part.config.seeds)
            if size == 1:
                raise InputError(
                    f"{part.config.model} with {part.config.method} does not fit the memory of {device}, even one run "
                    "at a time; give a smaller --set train.batch_size or model.dim, or another --device."
                ) from None
            say(f"out of memory with {size} runs at once: going on with {-(-size // 2)}")
            waiting[:0] = _pieces(part, -(-size // 2))
        else:
            yield recommender
            continue
        gc.collect()  # outside the handler, whose traceback keeps the tensors alive
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _room(device: torch.device) -> int:
    """Bytes that a stack may take."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) // 2
    memory = Path("/proc/meminfo")
    for line in memory.read_text().splitlines() if memory.exists() else ():
        if line.startswith("MemAvailable:"):
            return min(CPU_BYTES, int(line.split()[1]) * 1024 // 2)
    return CPU_BYTES


def _bytes_of_a_run(run: Run, data: Dataset) -> int:
    """A careful guess: weights with gradients, moments, the best and what is computed from all of them, and a batch."""
    one = run.with_seeds(run.config.seeds[:1]).build(data.csr(data.train))
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in one.state_dict().values())
    batch = run.config.train.batch_size or 2048
    pairs = 2 * batch
    if one.target.batching == "users":  # a batch holds its users' whole histories
        pairs = 2 * math.ceil(len(data.train) * min(1, batch / max(1, data.counts()["users"])))
    return 12 * weights + 16 * 64 * 4 * pairs


def _parts_that_fit(run: Run, data: Dataset, device: torch.device) -> Iterator[Run]:
    if run.method is None:
        yield run
        return
    yield from _pieces(run, max(1, min(MOST_RUNS, _room(device) // _bytes_of_a_run(run, data))))


def _pieces(run: Run, most: int) -> Iterator[Run]:
    """A stack in pieces of at most so many runs."""
    config = run.config
    for start in range(0, len(config.seeds), most):
        update = {"seeds": config.seeds[start : start + most], "varied": config.varied[start : start + most]}
        yield Run(config.model_copy(update=update), run.model, run.method)
