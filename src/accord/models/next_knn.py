"""Next-kNN: items that users took soon after others, the nearest few of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from accord.data.csr import Csr
from accord.kernels.neighbours import k_best
from accord.models.base import Cost, Shape
from accord.models.histories import SparseItemToItem, power_or_zero
from accord.models.sequences import KnowsOrder, SequenceConfig, halving, seconds_of_pairs, what_followed


class NextKNN(KnowsOrder, SparseItemToItem):
    """Scores X W, W sparse: w_ij = c_ij / (n_i^e n_j^(1-e) + shrink) where i is among the k that j follows most.
    c_ij = the sum, over who took i and then j, of 2^(-(d - 1) / reach), j being the d-th item after i; n_i: the
    interactions of an item."""

    name = "next-knn"
    summary = "items that users took soon after others: item-knn that knows which came first"

    class Config(SequenceConfig):
        reach: float = Field(6.0, gt=0, description="what came after an item counts half every so many items")
        k: int = Field(500, ge=1, le=2**20, description="items of a history that count for each item")
        balance: float = Field(
            0.75,
            ge=0,
            le=1,
            description="a weight is divided by the popularity of: 1, the history's item; 0, the other",
        )
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
        users, items, pairs = shape.num_users, shape.num_items, shape.num_interactions
        later = halving(config.reach)
        entries, k = min(shape.by_user, items**2, pairs * len(later)), min(config.k, items)
        rank = 2e-9 * pairs * min(k, 20 + entries // items) + 1e-9 * users * items
        return Cost(0.05 + seconds_of_pairs(shape, later) + 6e-8 * entries, rank, 60 * entries + 100 * pairs)
