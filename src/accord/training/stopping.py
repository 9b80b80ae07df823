"""When a training checks itself on the validation, and when it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor


@dataclass
class Stopping:
    """When to check and when to stop. `check` gives a value for each run.

    best-ndcg: higher is better, stop after `patience` checks without a new best, keep the best weights.
    loss-rise: lower is better, stop at the second rise over the value before (not the best), keep the last weights.
    """

    rule: Literal["best-ndcg", "loss-rise"]
    check: Callable[[], Tensor]  # -> [R]
    every: int  # steps
    offset: int  # the first check is after `offset` steps
    patience: int
    streams: list[torch.Generator] = field(default_factory=list)  # what the check draws from

    def due(self, steps_done: int) -> bool:
        return steps_done >= self.offset and (steps_done - self.offset) % self.every == 0
