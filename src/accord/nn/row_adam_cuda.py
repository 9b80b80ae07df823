"""Adam's decoupled form on a table of which a step touches few rows, on CUDA: `row_adam.RowsAtOnce` does it on a CPU.

Nothing is decided on the host, so that a step can be recorded and repeated: the number of the step and the step up to
which each row is are on the device, and where several look up the same row, the first to mark it does the work.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from accord.kernels import cuda
from accord.nn.row_adam import COUNTED, Rows


class RowsOnCuda(Rows):
    """In kernels that find out themselves which rows are late."""

    def __init__(
        self, weight: nn.Parameter, state: Mapping[str, Tensor], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        """`state`: as torch's Adam has it."""
        self.weight, self.spread, self.step = weight.detach(), state["exp_avg_sq"], state["step"]
        self.lr, self.beta, self.eps = lr, betas[1], eps
        self.last = self.step.int().repeat(weight.shape[:2])
        self.gradient = torch.zeros_like(self.weight)  # of the rows touched since the last step; 0 elsewhere
        self.decay = self.weight.new_zeros(len(weight))  # of each run, times lr
        self.touched: list[Tensor] = []  # ids that were looked up since the last step
        self.base = self.step.clone()
        self.since = torch.arange(COUNTED + 1, device=weight.device, dtype=torch.float64)  # steps since `base`
        self.roots, self.sums = self.beta ** (self.since / 2), torch.empty_like(self.since)
        self._count_from_here()

    def look_up(self, ids: Tensor, to_train: bool) -> Tensor | None:
        ids = ids.contiguous()
        self._fade(ids)
        if not to_train:
            return None
        self.touched.append(ids)
        return self.gradient

    def update(self, decay: Tensor | None) -> None:
        if not self.touched:
            return
        self.step += 1
        if decay is not None:
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

    def forget(self) -> None:
        self.touched.clear()

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
