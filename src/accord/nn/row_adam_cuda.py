"""Adam on a table that is read by lookups alone, on CUDA: all rows at every step, or in the decoupled form only those
that are looked up, as `row_adam.RowsAtOnce` does it on a CPU.

Nothing is decided on the host, so that a step can be recorded and repeated: the number of the step and the step up to
which each row is are on the device, and where several look up the same row, the first to mark it does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from accord.kernels import cuda
from accord.nn.row_adam import COUNTED, Rows


class OnCuda(Rows):
    """With a gradient that is kept from step to step: what a step has used of it is 0 again."""

    def __init__(
        self, weight: nn.Parameter, state: Mapping[str, Tensor], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        """The number of steps in `state` is counted by who calls `update`, for all tables at once."""
        self.weight, self.state, self.step = weight.detach(), state, state["step"]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.gradient = torch.zeros_like(self.weight)  # of the rows touched since the last step; 0 elsewhere
        self.touched: list[Tensor] = []  # ids that were looked up since the last step

    def look_up(self, ids: Tensor, to_train: bool) -> Tensor | None:
        if not to_train:
            return None
        self.touched.append(ids)
        return self.gradient

    def forget(self) -> None:
        self.touched.clear()


class TableOnCuda(OnCuda):
    """All rows at every step, in one pass over their bytes."""

    def update(self, decay: Tensor | None) -> None:
        if self.touched:
            mean, spread = self.state.get("exp_avg"), self.state["exp_avg_sq"]
            settings = self.lr, self.betas, self.eps
            cuda.adam(self.weight, self.gradient, mean, spread, self.step, decay, *settings, clear=True)
            self.touched.clear()

    def settle(self) -> None:
        """No row is ever late."""

    def taken(self) -> None:
        """Nothing to count."""


class RowsOnCuda(OnCuda):
    """In kernels that find out themselves which rows are late. Decoupled."""

    def __init__(self, weight: nn.Parameter, state: Mapping[str, Tensor], *settings: Any) -> None:
        super().__init__(weight, state, *settings)
        self.spread, self.beta = state["exp_avg_sq"], self.betas[1]
        self.last = self.step.int().repeat(weight.shape[:2])
        self.decay = self.weight.new_zeros(len(weight))  # of each run, times lr
        self.base = self.step.clone()
        self.since = torch.arange(COUNTED + 1, device=weight.device, dtype=torch.float64)  # steps since `base`
        self.roots, self.sums = self.beta ** (self.since / 2), torch.empty_like(self.since)
        self._count_from_here()

    def look_up(self, ids: Tensor, to_train: bool) -> Tensor | None:
        ids = ids.contiguous()
        self._fade(ids)
        return super().look_up(ids, to_train)

    def update(self, decay: Tensor | None) -> None:
        if self.touched and decay is not None:
            torch.mul(decay, self.lr, out=self.decay)
        for ids in self.touched:
            cuda.move(
                self.weight, self.spread, self.last, ids, self.step, self.decay, self.gradient, self.lr, self.beta,
                self.eps,
            )  # fmt: skip
        self.touched.clear()

    def taken(self) -> None:
        self.counted += 1
        if self.counted == COUNTED:
            self.settle()

    def settle(self) -> None:
        assert not self.touched, "the step of those that were touched is not taken yet"
        self._fade(None)
        self._count_from_here()

    def _fade(self, ids: Tensor | None) -> None:
        cuda.fade(
            self.weight, self.spread, self.last, ids, self.step, self.decay, self.base, self.sums, self.roots, self.eps
        )

    def _count_from_here(self) -> None:
        """Sum up sqrt(1 - beta^t) / beta^(t / 2) over steps from this one on, of which all rows are."""
        self.counted = 0
        self.base.copy_(self.step)
        terms = (1 - self.beta ** (self.base.double() + self.since)).sqrt_().div_(self.roots)
        terms[0] = 0  # of the step before the first
        torch.cumsum(terms, 0, out=self.sums)
