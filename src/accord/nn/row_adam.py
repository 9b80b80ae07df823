"""Adam on a table of which a step touches few rows: each row is changed only when it is next looked at. Here on a CPU,
in `row_adam_cuda` on a GPU.

That is not "lazy Adam", which forgets the steps between and is another optimiser: a row that is looked at again first
takes every step that it has missed, with no gradient but the penalty's: one by one, or decoupled all at once. The
result is dense Adam's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from accord.kernels import cpu
from accord.kernels.lookups import Into

COUNTED = 2**17  # steps, after which sums are begun anew: they grow beyond what a number can be


class Rows(ABC):
    """The state of a table [R, rows, dim] under Adam, with the rows' last steps."""

    @abstractmethod
    def __init__(
        self, weight: nn.Parameter, state: Mapping[str, Tensor], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        """`state`: as torch's Adam has it."""

    @abstractmethod
    def look_up(self, ids: Tensor, to_train: bool) -> Into | None:
        """Bring rows [R, B] up to date; where their gradient belongs, if they are to have one."""

    @abstractmethod
    def update(self, decay: Tensor | None) -> None:
        """A step on the rows that were touched; the others are late now. `decay` [R]: as `Adam` has it."""

    @abstractmethod
    def settle(self) -> None:
        """Bring all rows up to date."""

    @abstractmethod
    def taken(self) -> None:
        """A step of the training was taken, or a recording of one repeated."""

    @abstractmethod
    def forget(self) -> None:
        """Rows were touched by a recording that failed: their step is not taken."""


class RowsOnCpu(Rows):
    """In compiled loops that are told which rows were touched."""

    def __init__(
        self, weight: nn.Parameter, state: Mapping[str, Tensor], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        self.weight, self.spread = weight.detach().numpy(), state["exp_avg_sq"].numpy()
        self.step, self._kept_step = int(state["step"]), state["step"]
        self.lr, self.betas, self.eps = lr, betas, eps
        runs, size, _ = self.weight.shape
        self.marks = np.zeros((runs, size, 2), dtype=np.int32)
        self.marks[:, :, 0] = self.step
        # of the rows touched since the last step, in their order; what lies behind them costs nothing
        self.gradient = np.zeros(self.weight.shape, dtype=np.float32)  # not zeros_like, which writes
        self.touched = np.empty((runs, size), dtype=np.int64)
        self.number = np.zeros((runs, 1), dtype=np.int64)

    @property
    def last(self) -> npt.NDArray[np.int32]:
        """The step up to which each row is."""
        return self.marks[:, :, 0]

    def look_up(self, ids: Tensor, to_train: bool) -> cpu.Into | None:
        rows = ids.contiguous().numpy()
        if not to_train:
            self.catch_up([np.unique(own) for own in rows])
            return None
        before, places = self.number[:, 0].copy(), np.empty_like(rows)
        cpu.for_each_run("enlist", len(rows), rows, self.marks, self.touched, places, self.number)
        self.get_ready(before)
        return self.gradient, places

    def settle(self) -> None:
        assert not self.number.any(), "the step of those that were touched is not taken yet"
        every = np.arange(self.weight.shape[1])
        self.catch_up([every] * len(self.weight))
        self._kept_step.fill_(self.step)

    def update(self, decay: Tensor | None) -> None:
        if not self.number.any():
            return
        self.step += 1
        self.move(decay)
        self.number[:] = 0

    def taken(self) -> None:
        """Nothing to count."""

    def forget(self) -> None:
        """Nothing to forget: steps on a CPU are not recorded."""

    def rows_touched(self, before: Sequence[int] | cpu.Ints) -> list[cpu.Ints]:
        """Of each run, those that came after so many."""
        return [own[start:end] for own, start, (end,) in zip(self.touched, before, self.number, strict=True)]

    @abstractmethod
    def catch_up(self, rows: list[cpu.Ints]) -> None:
        """Take the steps that rows of each run have missed."""

    @abstractmethod
    def get_ready(self, before: cpu.Ints) -> None:
        """The same of those touched since there were `before` of them, as far as they are looked at before `move`."""

    @abstractmethod
    def move(self, decay: Tensor | None) -> None:
        """Take a step on the rows touched."""


class RowsStepByStep(RowsOnCpu):
    """With the penalty in the gradient: the steps missed are taken one by one."""

    def __init__(self, weight: nn.Parameter, state: Mapping[str, Tensor], *settings: Any) -> None:
        super().__init__(weight, state, *settings)
        self.mean = state["exp_avg"].numpy()
        self.decay = [0.0] * len(self.weight)
        self._sizes = self._roots = np.empty(0, dtype=np.float32)

    def catch_up(self, rows: list[cpu.Ints]) -> None:
        self._call("replay", rows)

    def get_ready(self, before: cpu.Ints) -> None:
        self._call("replay", self.rows_touched(before))

    def move(self, decay: Tensor | None) -> None:
        self.decay = self.decay if decay is None else decay.tolist()
        self._call("update", self.rows_touched([0] * len(self.weight)), self.gradient)

    def _call(self, kernel: str, rows: list[cpu.Ints], *gradient: cpu.Floats) -> None:
        constants = self._constants()
        cpu.call(kernel, [
            (self.weight[run], self.mean[run], self.spread[run], self.marks[run], rows[run][part], self.step,
             self.decay[run], *constants, *(array[run, part] for array in gradient))
            for run, part in cpu.shares(rows)
        ])  # fmt: skip

    def _constants(self) -> tuple[float, float, float, cpu.Floats, cpu.Floats]:
        """What a step needs besides the rows: the betas, eps, and each step's size and the scale of its root."""
        if len(self._sizes) <= self.step:
            steps = np.arange(2 * self.step + 1000, dtype=np.float64)
            with np.errstate(divide="ignore"):  # there is no step 0
                self._sizes = (self.lr / (1 - self.betas[0] ** steps)).astype(np.float32)
                self._roots = (1 / np.sqrt(1 - self.betas[1] ** steps)).astype(np.float32)
        return *self.betas, self.eps, self._sizes, self._roots


class RowsAtOnce(RowsOnCpu):
    """Decoupled: the steps missed are one factor of each weight. The spread is changed only in `move`, so it waits."""

    def __init__(self, weight: nn.Parameter, state: Mapping[str, Tensor], *settings: Any) -> None:
        super().__init__(weight, state, *settings)
        self.decay = [0.0] * len(self.weight)
        self.missed = np.empty_like(self.touched)
        self._ahead = np.zeros(1, dtype=np.float32)
        self._count_from_here()

    def catch_up(self, rows: list[cpu.Ints]) -> None:
        cpu.call("fade", [
            (self.weight[run], self.spread[run], self.marks[run], rows[run][part], *self._how(run), *self._sums())
            for run, part in cpu.shares(rows)
        ])  # fmt: skip

    def get_ready(self, before: cpu.Ints) -> None:
        rows = self.rows_touched(before)
        cpu.call("fade_weight", [
            (self.weight[run], self.spread[run], self.marks[run], rows[run][part], *self._how(run), *self._sums(),
             self.missed[run, before[run] :][part], self._ahead)
            for run, part in cpu.shares(rows)
        ])  # fmt: skip

    def move(self, decay: Tensor | None) -> None:
        self.decay = self.decay if decay is None else (self.lr * decay.double()).tolist()
        rows = self.rows_touched([0] * len(self.weight))
        cpu.call("move", [
            (self.weight[run], self.spread[run], self.marks[run], rows[run][part], self.step, self.decay[run], self.eps,
             self.missed[run, part], self._ahead, self.lr, self.betas[1], self.gradient[run, part])
            for run, part in cpu.shares(rows)
        ])  # fmt: skip

    def taken(self) -> None:
        if self.step - self._base == COUNTED:
            self.settle()
            self._count_from_here()

    def _how(self, run: int) -> tuple[int, int, float, float]:
        return self.step, self._base, self.decay[run], self.eps

    def _count_from_here(self) -> None:
        self._base, self._kept = self.step, (np.zeros(1), np.ones(1))

    def _sums(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Of each step since `_base`: sqrt(1 - beta2^t) / beta2^(t / 2), summed up, and beta2^(t / 2)."""
        if len(self._kept[0]) <= self.step - self._base:
            since = np.arange(min(2 * (self.step - self._base) + 1000, COUNTED + 1), dtype=np.float64)
            roots = self.betas[1] ** (since / 2)
            terms = np.sqrt(1 - self.betas[1] ** (self._base + since)) / roots
            terms[0] = 0  # of the step before the first
            self._kept = np.cumsum(terms), roots
        return self._kept
