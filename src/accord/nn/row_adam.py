"""The decoupled form of Adam on a table of which a step touches few rows: a row changes only when it is looked up.

That is not "lazy Adam", which forgets the steps in between and is another optimiser: a row that is looked up again
first takes all the steps that it has missed, at once. The result is that of updating all rows at every step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from accord.kernels import cpu, cuda

COUNTED = 2**17  # steps after which the sums begin anew: beyond, they grow too large for a float


class Rows:
    """The state of a table [R, rows, dim], and the last step of each of its rows.
    Nothing is decided on the host, so that a GPU can record a step and repeat it: the number of the step is a tensor,
    and of several lookups of one row the first does the work."""

    def __init__(self, weight: nn.Parameter, state: Mapping[str, Tensor], lr: float, beta: float, eps: float) -> None:
        """`state`: as torch's Adam has it; its number of steps is counted by who calls `update`."""
        self.fade, self.move = (cuda.fade, cuda.move) if weight.is_cuda else (cpu.fade, cpu.move)
        self.weight, self.spread, self.step = weight.detach(), state["exp_avg_sq"], state["step"]
        self.lr, self.beta, self.eps = lr, beta, eps
        self.gradient = torch.zeros_like(self.weight)  # of the rows touched since the last step; 0 elsewhere
        self.touched: list[Tensor] = []  # ids that were looked up since the last step
        self.last = self.step.int().repeat(weight.shape[:2])
        self.decay = self.weight.new_zeros(len(weight))  # of each run, times lr
        self.base = self.step.clone()
        self.since = torch.arange(COUNTED + 1, device=weight.device, dtype=torch.float64)  # steps since `base`
        self.roots, self.sums = self.beta ** (self.since / 2), torch.empty_like(self.since)
        self._count_from_here()

    def look_up(self, ids: Tensor, to_train: bool) -> Tensor | None:
        """Bring rows [R, B] up to date; where their gradient belongs, if they are to have one."""
        ids = ids.contiguous()
        self._catch_up(ids)
        if not to_train:
            return None
        self.touched.append(ids)
        return self.gradient

    def update(self, decay: Tensor | None) -> None:
        """A step on the rows that were touched; the others are late now. `decay` [R]: as `Adam` has it."""
        if self.touched and decay is not None:
            torch.mul(decay, self.lr, out=self.decay)
        for ids in self.touched:
            self.move(
                self.weight, self.spread, self.last, ids, self.step, self.decay, self.gradient, self.lr, self.beta,
                self.eps,
            )  # fmt: skip
        self.touched.clear()

    def settle(self) -> None:
        assert not self.touched, "the step of those that were touched is not taken yet"
        self._catch_up(None)
        self._count_from_here()

    def taken(self) -> None:
        """A step was taken, or a recording of one repeated."""
        self.counted += 1
        if self.counted == COUNTED:
            self.settle()

    def forget(self) -> None:
        """Rows were touched by a recording that failed: their step is not taken."""
        self.touched.clear()

    def _catch_up(self, ids: Tensor | None) -> None:
        self.fade(
            self.weight, self.spread, self.last, ids, self.step, self.decay, self.base, self.sums, self.roots, self.eps
        )

    def _count_from_here(self) -> None:
        """Sum up sqrt(1 - beta^t) / beta^(t / 2) over the steps from this one on."""
        self.counted = 0
        self.base.copy_(self.step)
        terms = (1 - self.beta ** (self.base.double() + self.since)).sqrt_().div_(self.roots)
        terms[0] = 0  # of the step before the first
        torch.cumsum(terms, 0, out=self.sums)
