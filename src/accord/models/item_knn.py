"""Item-kNN: items that the same users took, the nearest few of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from accord.data.csr import Csr
from accord.kernels.neighbours import nearest_items
from accord.models.base import Cost, Shape
from accord.models.histories import CleanConfig, SparseItemToItem, power_or_zero


def nearest(x: Any, k: int, balance: float, shrink: float, on_progress: Callable[[float], None] | None = None) -> Any:
    """W' [I, I], sparse: row j has the weights of the k items i nearest to item j."""
    sizes = x.multiply(x).sum(0).A1  # [I]
    norm, other = (power_or_zero(sizes, power) for power in (balance, 1 - balance))
    near = nearest_items(x, k, norm, other, shrink, on_progress=on_progress)
    columns = near.columns[near.mask]
    alike = near.together[near.mask] / (norm[columns] * np.repeat(other, near.counts) + shrink)
    return sp.csr_matrix((alike, columns, np.append(0, near.counts.cumsum())), shape=(x.shape[1], x.shape[1]))


class ItemKNN(SparseItemToItem):
    """Scores X W, W sparse: w_ij = c_ij / (n_i^e n_j^(1-e) + shrink) where i is among the k nearest of item j.
    c = X'X without its diagonal, n_i = c_ii: the interactions of an item, where none has a weight.
    Memory: 8 bytes for each of at most k I weights; while fitting 60, and 50 an interaction."""

    name = "item-knn"
    summary = "items that the same users took: the nearest of each, by a shrunk cosine"

    class Config(CleanConfig):
        k: int = Field(200, ge=1, le=2**20, description="nearest items of each item")
        balance: float = Field(
            0.75,
            ge=0,
            le=1,
            description="a weight is divided by the popularity of: 1, the history's item; 0, the other",
        )
        shrink: float = Field(100.0, ge=0, description="added to the norm: items that few took together count less")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = self.to_fit(train, weight)
        self.keep(nearest(x, self.config.k, self.config.balance, self.config.shrink, self.on_progress).T.tocsr())

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        users, items, pairs = shape.num_users, shape.num_items, shape.num_interactions
        entries, k = min(shape.by_user, items**2), min(config.k, items)
        memory = 60 * items * k + 50 * pairs
        return Cost(
            0.02 + 3e-9 * shape.by_user, 2e-9 * pairs * min(k, 20 + entries // items) + 1e-9 * users * items, memory
        )
