"""Folds of a log: each interaction is held out once, so that models which were trained without it can judge it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.data.csr import Rows

VALIDATION = 0.08  # of the training pairs, to stop by
ENOUGH_TO_STOP_BY = 10  # interactions of a user who gives one to the validation

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Fold:
    """One cut of a log: what is held out and what training stops by; the rest is trained on."""

    held: Bools  # [n]
    valid: Bools

    def trained(self, learns: bool) -> Bools:
        """What is trained on: where nothing is learned, nothing has to stop, and the validation is trained on too."""
        return ~self.held & ~self.valid if learns else ~self.held


def cut(users: Rows, items: Rows, num_users: int, num_items: int, folds: int, seed: int = 0) -> Iterator[Fold]:
    """Each user's interactions dealt out to the folds in random order, as evenly as they can be."""
    rng = np.random.default_rng(seed)
    counts = np.bincount(users, minlength=num_users)
    order = np.lexsort((rng.random(len(users)), users))
    dealt = np.empty(len(users), dtype=np.int64)
    dealt[order] = np.arange(len(users)) - (np.cumsum(counts) - counts)[users[order]]
    fold = (dealt + rng.integers(folds, size=len(counts))[users]) % folds
    for number in range(folds):
        held = fold == number
        spare = ~held & (counts[users] >= ENOUGH_TO_STOP_BY)
        spare &= np.bincount(items[~held], minlength=num_items)[items] > 1
        yield Fold(held, spare & (rng.random(len(users)) < VALIDATION))
