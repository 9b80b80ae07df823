"""Batches of runs, cut to the memory that is available."""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Callable, Iterator

import torch

from accord.comparing.executor import Say, Watch
from accord.consensus.training import Trained, train_run
from accord.data.interactions import Dataset
from accord.errors import Argument, InputError
from accord.methods.base import Method
from accord.models.base import Shape
from accord.recommender.recommender import Recommender
from accord.training.run import RunSpec
from accord.training.trainer import Diverged

MOST_RUNS = 256  # in one batch


def train_in_memory(
    data: Dataset,
    stack: RunSpec,
    device: torch.device,
    watch: Watch = None,
    each_epoch: Callable[[RunSpec, Method, int], None] | None = None,
    say: Say = print,
) -> Iterator[tuple[RunSpec, Recommender]]:
    """Train and evaluate a batch of runs that should fit, each with the runs it has. If memory runs out all the same,
    continue in halves.

    `each_epoch` is called with the runs, their method and the epoch, in the last stage.
    """
    waiting = [stack]
    while waiting:
        stack = waiting.pop(0)
        try:
            seen = None if each_epoch is None else (lambda method, epoch, runs=stack: each_epoch(runs, method, epoch))
            try:
                trained = train_run(data, stack, device, watch=watch, each_epoch=seen)
            except Diverged as error:
                warnings.warn(f"{stack.config.model} + {stack.config.method}: {error}", stacklevel=2)
                if error.rest is None:
                    continue
                stack, method, states = error.rest
                trained = Trained(stack, method, states, method.notes)
            recommender = Recommender.of_training(trained, data)
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            size = len(stack.config.seeds)
            if size == 1:
                raise InputError(
                    f"{stack.config.model} with {stack.config.method} does not fit into the memory of {device}, even "
                    "one run at a time; give a smaller train.batch_size or model.dim, or another ",
                    Argument("device"),
                    ".",
                ) from None
            say(f"out of memory with {size} runs at once: continuing with {-(-size // 2)}")
            waiting[:0] = _smaller_stacks(stack, -(-size // 2))
        else:
            yield stack, recommender
            continue
        gc.collect()  # outside the handler, whose traceback keeps the tensors alive
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def bytes_of_a_run(run: RunSpec, data: Dataset) -> int:
    """A careful guess: weights with gradients, moments, the best weights and intermediate results, and a batch."""
    one = run.with_seeds(run.config.seeds[:1]).build(data.training_csr(run.columns))
    if one.target.solved:
        return one.target.cost(one.target.config, Shape.of(data.training_csr())).memory
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in one.state_dict().values())
    batch = run.config.train.batch_size or 2048
    pairs = 2 * batch
    if one.target.batching == "users":  # a batch holds the whole histories of its users
        pairs = 2 * math.ceil(len(data.train) * min(1, batch / max(1, data.counts()["users"])))
    return 12 * weights + 16 * 64 * 4 * pairs


def stacks_that_fit(run: RunSpec, data: Dataset, room: int) -> Iterator[tuple[RunSpec, int]]:
    """Smaller batches of a run's seeds that fit into so many bytes, each with the bytes that it takes, about."""
    each = bytes_of_a_run(run, data)
    for stack in _smaller_stacks(run, max(1, min(MOST_RUNS, room // each))):
        yield stack, each * len(stack.config.seeds)


def _smaller_stacks(run: RunSpec, most: int) -> Iterator[RunSpec]:
    config = run.config
    for start in range(0, len(config.seeds), most):
        yield run.updated(seeds=config.seeds[start : start + most], varied=config.varied[start : start + most])
