"""What the models that know the order of histories have in common: what came after what, by the times of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from accord.config import BaseConfig
from accord.data.csr import Csr, Floats, IntArray
from accord.errors import ColumnArgument, InputError
from accord.models.base import Shape
from accord.models.histories import MOST_DENSE, ScoresHistories

FAINT = 0.01  # of the first item's weight: those that count less are left out
MOST_LATER = 250  # items of a user that are looked at after each
ENTRIES_AT_ONCE = 2**24


def require_times(name: str, train: Csr) -> None:
    if "time" not in train.columns:
        problem = f"model {name} learns from the order of each user's interactions, and the log has no times; give "
        raise InputError(problem, ColumnArgument("time"), ", or choose another model.")
    times, same = train.columns["time"], train.users[1:] == train.users[:-1]
    if not (same & (times[1:] != times[:-1])).any():
        problem = f"model {name} learns from what came after what, and no user has interactions at two times"
        raise InputError(f"{problem}; give another ", ColumnArgument("time"), ", or choose another model.")


def in_order_of_time(train: Csr) -> IntArray:
    """The interactions [n] user by user, each user's by time. Those of one moment are in a random order, which is
    always the same: the order of their rows would say that some items come first."""
    moments = np.random.default_rng(0).permutation(len(train.items))
    order: IntArray = np.lexsort([moments, train.columns["time"], train.users])
    return order


def halving(half_life: float) -> Floats:
    """What the next items count for, the first 1: half every so many."""
    number = min(MOST_LATER, max(1, int(np.ceil(-np.log2(FAINT) * half_life))))
    result: Floats = np.exp2(-np.arange(number) / half_life)
    return result


def what_followed(train: Csr, later: Floats, weight: Floats | None = None, ends: Floats | None = None) -> Any:
    """C [I, I], sparse where items are many: c_ij = the sum of later[d - 1] over who took j as the d-th item after i.
    `weight` [n]: what each interaction counts for, so that a pair counts for the product of two. `ends` [n]: of each
    interaction, by its place in the order of its user from the last, what a pair that ends there counts for besides."""
    order, size = in_order_of_time(train), train.num_items
    items = train.items[order].astype(np.int64)
    ahead = np.repeat(train.ptr[1:], train.counts) - np.arange(len(items))  # items from each on, itself included
    share = np.ones(len(items)) if weight is None else weight[order]
    after = share if ends is None else share * ends[np.minimum(ahead, len(ends)) - 1]
    dense = np.zeros(size**2, dtype=np.float32) if size <= MOST_DENSE else None
    waiting: list[tuple[npt.NDArray[Any], ...]] = []
    total: Any = _summed([(np.empty(0, np.float32), items[:0], items[:0])], size)
    first = np.arange(len(items))
    for distance, counts in enumerate(later, 1):
        first = first[ahead[first] > distance]
        if not len(first):
            break
        values = (counts * share[first] * after[first + distance]).astype(np.float32)
        if dense is not None:
            np.add.at(dense, items[first] * size + items[first + distance], values)
            continue
        waiting.append((values, items[first], items[first + distance]))
        if sum(len(part[0]) for part in waiting) >= ENTRIES_AT_ONCE:
            total, waiting = total + _summed(waiting, size), []
    if dense is not None:
        return dense.reshape(size, size)
    return total + _summed(waiting, size) if waiting else total


def _summed(parts: Sequence[tuple[npt.NDArray[Any], ...]], size: int) -> Any:
    values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    return sp.csr_matrix((values, (rows, columns)), shape=(size, size))


def seconds_of_pairs(shape: Shape, later: Floats) -> float:
    pairs = min(shape.num_interactions * len(later), shape.by_user // 2)
    return 3e-7 * shape.num_interactions + (1.2e-8 if shape.num_items <= MOST_DENSE else 1.5e-7) * pairs


class SequenceConfig(BaseConfig):
    half_life: float = Field(4.0, gt=0, description="an item of a history counts half for every so many later ones")


class KnowsOrder(ScoresHistories):
    """Scores X W from histories that always fade, W being what tends to come after what."""

    Config = SequenceConfig
    fades_by = "half_life"

    @classmethod
    def reads(cls, config: Any) -> tuple[str, ...]:
        return ("time",)

    def history_counts(self, train: Csr) -> Floats | None:
        require_times(self.name, train)
        return super().history_counts(train)
