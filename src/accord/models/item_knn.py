"""Item-kNN and Next-kNN: items that the same users took, or took soon after others, the nearest few of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from accord.data.csr import Csr
from accord.kernels.neighbours import k_best, nearest_items
from accord.models.base import Cost, Shape
from accord.models.histories import CleanConfig, SparseItemToItem, power_or_zero
from accord.models.sequences import KnowsOrder, SequenceConfig, halving, seconds_of_pairs, what_followed

BALANCE: Any = Field(
    0.75, ge=0, le=1, description="a weight is divided by the popularity of: 1, the history's item; 0, the other"
)


def seconds_to_rank(shape: Shape, entries: int, k: int) -> float:
    """Of scores by the k nearest of each item, in a matrix of items by items that has so many entries."""
    near = min(k, shape.num_items, 20 + entries // shape.num_items)
    return 2e-9 * shape.num_interactions * near + 1e-9 * shape.num_users * shape.num_items


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
        balance: float = BALANCE
        shrink: float = Field(100.0, ge=0, description="added to the norm: items that few took together count less")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = self.to_fit(train, weight)
        self.keep(nearest(x, self.config.k, self.config.balance, self.config.shrink, self.on_progress).T.tocsr())

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        items, entries = shape.num_items, min(shape.by_user, shape.num_items**2)
        memory = 60 * items * min(config.k, items) + 50 * shape.num_interactions
        return Cost(0.02 + 3e-9 * shape.by_user, seconds_to_rank(shape, entries, config.k), memory)


class NextKNN(KnowsOrder, SparseItemToItem):
    """Scores X W, W sparse: w_ij = c_ij / (n_i^e n_j^(1-e) + shrink) where i is among the k that j follows most.
    c_ij = the sum, over who took i and then j, of 2^(-(d - 1) / reach), j being the d-th item after i; n_i: the
    interactions of an item."""

    name = "next-knn"
    summary = "items that users took soon after others: item-knn with order"

    class Config(SequenceConfig):
        reach: float = Field(6.0, gt=0, description="an item that came later counts half for every so many in between")
        k: int = Field(500, ge=1, le=2**20, description="items of a history that count for each item")
        balance: float = BALANCE
        shrink: float = Field(5.0, ge=0, description="added to the norm: items that few took together count less")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        config = self.config
        sizes = np.bincount(train.items, weight, self.num_items).astype(np.float64)
        norm, other = (power_or_zero(sizes, power) for power in (config.balance, 1 - config.balance))
        alike = sp.coo_matrix(what_followed(train, halving(config.reach), weight))
        alike.data /= norm[alike.row] * other[alike.col] + config.shrink
        self.keep(k_best(alike.T.tocsr(), config.k).T.tocsr())

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        later, pairs = halving(config.reach), shape.num_interactions
        entries = min(shape.by_user, shape.num_items**2, pairs * len(later))
        fit, rank = 0.05 + seconds_of_pairs(shape, later) + 6e-8 * entries, seconds_to_rank(shape, entries, config.k)
        return Cost(fit, rank, 60 * entries + 100 * pairs)
