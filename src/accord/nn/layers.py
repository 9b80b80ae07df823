"""Layers whose parameters carry a leading run dimension R, so that one loop trains R runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.kernels import cpu, cuda
from accord.kernels.lookups import row_dot, take_rows
from accord.nn.row_adam import Rows
from accord.random import generators

WORTH_ROWS = 2  # times the pairs of a step: a table of more rows is trained row by row
WORTH_ROWS_ON_CUDA = 8  # where a table is passed over at the speed of memory, and rows are not


class Trainable(nn.Module):
    """Networks with a loss of each run: all that the training loop knows of a method."""

    recordable: ClassVar[bool] = False  # see `is_recordable`
    remembers: ClassVar[tuple[str, ...]] = ()  # buffers [R, ...], no weights, that steps change: kept in checkpoints

    def begin_epoch(self, epoch: int) -> None:
        """Get ready for an epoch, by its number, the weights being those that the one before ended with."""

    def begin_step(self, step: int) -> str:
        """Get ready for a step, by its number. Steps of a kind, which is what comes back, do the same operations."""
        return "step"

    def loss(self, batch: Any) -> Tensor:
        raise AssertionError("a method gives a loss")

    def decay(self, l2: Tensor) -> dict[nn.Parameter, Tensor]:
        """The penalty, l2 [R], as a factor [R] of each parameter: factor times parameter is its gradient."""
        raise AssertionError("a method says what the penalty is on")


class RunLayer(nn.Module):
    """A layer that can initialise one run's slice of its parameters."""

    def initialise(self, run: int, generator: torch.Generator) -> None:
        raise AssertionError("a layer says how it starts")


class Embedding(RunLayer):
    """`weight` [R, rows, dim]; ids [R, B] -> [R, B, dim]. Starts as N(0, std), or uniform within +-bound."""

    def __init__(self, runs: int, rows: int, dim: int, std: float = 0.01, bound: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, rows, dim))
        self.std, self.bound = std, bound
        self.rows: Rows | None = None  # while it is trained row by row

    def initialise(self, run: int, generator: torch.Generator) -> None:
        if self.bound is None:
            nn.init.normal_(self.weight[run], std=self.std, generator=generator)
        else:
            nn.init.uniform_(self.weight[run], -self.bound, self.bound, generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        return take_rows(self.weight, ids, self._looked_up(ids))

    def _looked_up(self, ids: Tensor) -> Tensor | None:
        """Bring rows up to date where they are trained row by row; where their gradient then belongs."""
        return None if self.rows is None else self.rows.look_up(ids, torch.is_grad_enabled())


def pair_dot(user: Embedding, item: Embedding, users: Tensor, items: Tensor, weight: Tensor | None = None) -> Tensor:
    """Dot products of user and item vectors, each dimension weighted by [R, dim] if given: ids [R, B] -> [R, B]."""
    into = user._looked_up(users), item._looked_up(items)
    return row_dot(user.weight, item.weight, users, items, weight, into)


class Linear(RunLayer):
    """`weight` [R, in, out], `bias` [R, out]; [R, B, in] -> [R, B, out].
    `start`: 'xavier' (zero bias), 'kaiming' (a=1, zero bias), 'torch' (what nn.Linear does) or a standard deviation
    (zero bias)."""

    def __init__(self, runs: int, num_in: int, num_out: int, start: str | float = "xavier") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, num_in, num_out))
        self.bias = nn.Parameter(torch.empty(runs, num_out))
        self.start = start

    def initialise(self, run: int, generator: torch.Generator) -> None:
        _, num_in, num_out = self.weight.shape
        squares = {"xavier": 6 / (num_in + num_out), "kaiming": 3 / num_in, "torch": 1 / num_in}
        bound = (squares[self.start] if isinstance(self.start, str) else 3 * self.start**2) ** 0.5
        nn.init.uniform_(self.weight[run], -bound, bound, generator=generator)
        if self.start == "torch":
            nn.init.uniform_(self.bias[run], -bound, bound, generator=generator)
        else:
            nn.init.zeros_(self.bias[run])

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight)


def unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors, dim=-1)


class Streams(nn.Module):
    """Random streams of a stochastic layer, one per run. Their states travel with the training checkpoint."""

    def __init__(self, seeds: Sequence[int], purpose: str) -> None:
        super().__init__()
        self.seeds, self.purpose = list(seeds), purpose
        self.streams = generators(self.seeds, purpose)

    def uniform(self, counts: list[int], device: torch.device) -> Tensor:
        """Numbers from 0 to 1, as many as each run needs, end to end."""
        drawn = zip(self.on(device), counts, strict=True)
        return torch.cat([torch.rand(count, generator=stream, device=device) for stream, count in drawn])

    def on(self, device: torch.device) -> list[torch.Generator]:
        if self.streams[0].device.type != device.type:
            self.streams = generators(self.seeds, self.purpose, device)
        return self.streams


def tables_by_rows(module: nn.Module, pairs: int) -> list[Embedding]:
    """Tables to train by what a step looks up, which is so many pairs, in the decoupled form of Adam: large ones that
    are read by lookups alone, which a model promises by `only_looks_up = True`."""
    models = [model for model in module.modules() if getattr(model, "only_looks_up", False)]
    tables = dict.fromkeys(layer for model in models for layer in model.children() if isinstance(layer, Embedding))
    return [
        table
        for table in tables
        if (cpu.usable(table.weight) and table.weight.shape[1] >= WORTH_ROWS * pairs)
        or (cuda.usable(table.weight) and table.weight.shape[1] >= WORTH_ROWS_ON_CUDA * pairs)
    ]


def is_recordable(module: nn.Module) -> bool:
    """Whether a GPU may record a step of this module once and repeat it: always the same operations on tensors of the
    same shapes, nothing decided on the host. Models and methods promise that by `recordable = True`."""
    return all(part.recordable for part in module.modules() if hasattr(part, "recordable"))


def initialise(module: nn.Module, seeds: Sequence[int], purpose: str) -> None:
    """Give every run-stacked layer its start, each run from its own stream."""
    layers = [layer for layer in module.modules() if isinstance(layer, RunLayer)]
    with torch.no_grad():
        for run, generator in enumerate(generators(seeds, purpose)):
            for layer in layers:
                layer.initialise(run, generator)
