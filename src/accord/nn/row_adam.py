"""Adam on a table of which a step touches few rows, on the CPU: each row is changed only when it is next looked at.

That is not "lazy Adam", which forgets the steps between and is another optimiser: a row that is looked at again first
takes every step that it has missed, with no gradient but the penalty's: one by one, or decoupled all at once. The
result is dense Adam's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from accord.kernels import cpu


class Rows:
    """The state of a table [R, rows, dim] under Adam, with the rows' last steps; decoupled, there is no `mean`."""

    def __init__(
        self, weight: nn.Parameter, mean: Sequence[Tensor], spread: Tensor, step: int,
        lr: float, betas: tuple[float, float], eps: float,
    ) -> None:  # fmt: skip
        self.weight, self.spread = weight.detach().numpy(), spread.numpy()
        self.mean = mean[0].numpy() if mean else self.spread
        self._kernels = ("replay", "update") if mean else ("fade", "move")
        runs, size, _ = self.weight.shape
        self.marks = np.zeros((runs, size, 2), dtype=np.int32)
        self.marks[:, :, 0] = step
        self.step = step
        self.decay: list[float] = [0.0 if mean else 1.0] * runs
        # of the rows touched since the last step, in their order; what lies behind them costs nothing
        self.gradient, self.touched = np.zeros_like(self.weight), np.empty((runs, size), dtype=np.int64)
        self.number = np.zeros((runs, 1), dtype=np.int64)
        self._settings = lr, betas, eps
        self._sizes = self._roots = np.empty(0, dtype=np.float32)

    @property
    def last(self) -> npt.NDArray[np.int32]:
        """The step up to which each row is."""
        return self.marks[:, :, 0]

    def look_up(self, ids: Tensor, to_train: bool) -> cpu.Into | None:
        """Bring rows [R, B] up to date; where their gradient belongs, if they are to have one."""
        rows = ids.contiguous().numpy()
        if not to_train:
            self._replay([np.unique(own) for own in rows])
            return None
        before, places = self.number[:, 0].copy(), np.empty_like(rows)
        cpu.for_each_run("enlist", len(rows), rows, self.marks, self.touched, places, self.number)
        self._replay([own[start:end] for own, start, (end,) in zip(self.touched, before, self.number, strict=True)])
        return self.gradient, places

    def settle(self) -> None:
        """Bring all rows up to date."""
        every = np.arange(self.weight.shape[1])
        self._replay([every] * len(self.weight))

    def _replay(self, rows: list[cpu.Ints]) -> None:
        per_run = self.weight, self.mean, self.spread, self.marks, rows
        cpu.for_rows(self._kernels[0], *per_run, self.step, self.decay, *self._constants())

    def update(self, decay: Tensor | None) -> None:
        """A step of Adam on the rows that were touched; the others are late now. `decay` [R]: as `Adam` has it."""
        if not self.number.any():
            return
        if decay is not None:
            self.decay = decay.tolist()
        self.step += 1
        rows = [own[:end] for own, (end,) in zip(self.touched, self.number, strict=True)]
        per_run = self.weight, self.mean, self.spread, self.marks, rows
        cpu.for_rows(self._kernels[1], *per_run, self.step, self.decay, *self._constants(), self.gradient)
        self.number[:] = 0

    def _constants(self) -> tuple[float, float, float, cpu.Floats, cpu.Floats]:
        """What a step needs besides the rows: the betas, eps, and each step's size and the scale of its root."""
        lr, betas, eps = self._settings
        if len(self._sizes) <= self.step:
            steps = np.arange(2 * self.step + 1000, dtype=np.float64)
            with np.errstate(divide="ignore"):  # there is no step 0
                self._sizes = (lr / (1 - betas[0] ** steps)).astype(np.float32)
                self._roots = (1 / np.sqrt(1 - betas[1] ** steps)).astype(np.float32)
        return *betas, eps, self._sizes, self._roots
