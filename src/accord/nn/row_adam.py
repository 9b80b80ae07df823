"""Adam on a table of which a step touches few rows, on the CPU: each row is changed only when it is next looked at.

That is not "lazy Adam", which forgets the steps between and is another optimiser: a row that is looked at again first
takes every step that it has missed, one by one, with no gradient but the penalty's. The result is dense Adam's.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from accord.kernels import cpu


class Rows:
    """The state of a table [R, rows, dim] under Adam, with the rows' last steps."""

    def __init__(
        self, weight: nn.Parameter, mean: Tensor, spread: Tensor, step: int,
        lr: float, betas: tuple[float, float], eps: float,
    ) -> None:  # fmt: skip
        self.weight, self.mean, self.spread = (tensor.detach().numpy() for tensor in (weight, mean, spread))
        self.gradient = np.zeros_like(self.weight)  # pages of rows that are never touched cost nothing
        self.last = np.full(self.weight.shape[:2], step, dtype=np.int32)
        self.step = step
        self.decay: list[float] = [0.0] * len(self.weight)
        self.touched: list[list[cpu.Ints]] = []  # of each lookup since the last step, each run's rows
        self._settings = lr, betas, eps
        self._sizes = self._roots = np.empty(0, dtype=np.float32)

    def look_up(self, ids: Tensor, to_train: bool) -> None:
        """Bring rows [R, B] up to date."""
        found = [np.unique(row) for row in ids.numpy()]
        self._replay(found)
        if to_train:
            self.touched.append(found)

    def settle(self) -> None:
        """Bring all rows up to date."""
        every = np.arange(self.weight.shape[1])
        self._replay([every] * len(self.weight))

    def _replay(self, rows: list[cpu.Ints]) -> None:
        late = [row[last[row] < self.step] for row, last in zip(rows, self.last, strict=True)]
        if any(len(row) for row in late):
            per_run = self.weight, self.mean, self.spread, self.last, late
            cpu.for_rows("replay", *per_run, self.step, self.decay, *self._constants())

    def update(self, decay: Tensor | None) -> None:
        """A step of Adam on the rows that were touched; the others are late now."""
        touched, self.touched = self.touched, []
        if not touched:
            return
        if decay is not None:
            self.decay = decay.tolist()
        self.step += 1
        rows = [np.unique(np.concatenate(of_run)) for of_run in zip(*touched, strict=True)]
        per_run = self.weight, self.mean, self.spread, self.last, rows
        cpu.for_rows("update", *per_run, self.step, self.decay, *self._constants(), self.gradient)

    def _constants(self) -> tuple[float, float, float, cpu.Floats, cpu.Floats]:
        """What a step needs besides the rows: the betas, eps, and each step's size and the scale of its root."""
        lr, betas, eps = self._settings
        if len(self._sizes) <= self.step:
            steps = np.arange(2 * self.step + 1000, dtype=np.float64)
            with np.errstate(divide="ignore"):  # there is no step 0
                self._sizes = (lr / (1 - betas[0] ** steps)).astype(np.float32)
                self._roots = (1 / np.sqrt(1 - betas[1] ** steps)).astype(np.float32)
        return *betas, eps, self._sizes, self._roots
