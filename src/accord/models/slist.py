"""SLIST: a linear item-to-item model of what comes next, solved in one step (Choi et al., 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from accord.data.csr import Csr
from accord.models.base import Cost, Shape
from accord.models.ease import SMALL, solved_towards
from accord.models.histories import DenseItemToItem, interaction_matrix
from accord.models.sequences import (
    MOST_LATER,
    KnowsOrder,
    SequenceConfig,
    as_dense,
    halving,
    in_order_of_time,
    seconds_of_pairs,
    what_followed,
)


class SLIST(KnowsOrder, DenseItemToItem):
    """Two ridge regressions with the same weights W of zero diagonal: histories X on themselves, as EASE has it, and at
    each moment t of each history what came before, Z, on what comes then, Y:

        minimise  a |X - X W|^2 + (1 - a) |Y - Z W|^2 + l2 |W|^2,    a = `whole`,

    z_ti = 2^(-(t - s - 1) / half_life) of an item i at s < t, y_tj = 2^(-(s - t) / reach) of an item j at s >= t. So
    with P = (a X'X + (1 - a) Z'Z + l2)^-1 and M = P (a X'X + (1 - a) Z'Y), W = M - P diag(M) / diag(P). Rows of Z are
    scaled so that an item counts in Z'Z as it does in X'X.

    Z'Z and Z'Y are sums over pairs of items of a history of what depends on their distance alone, but for Z'Z's end.
    """

    name = "slist"
    summary = "linear model of what comes after a history that fades, solved in one step: ease that knows order"
    left_out = 0.001

    class Config(SequenceConfig):
        l2: float = Field(250.0, gt=0, description="ridge penalty")
        reach: float = Field(1.5, gt=0, description="an item that comes later counts half for every so many in between")
        whole: float = Field(0.1, ge=0, le=1, description="share of plain EASE, which ignores order")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        self.require_memory()
        config, size = self.config, self.num_items
        gram = np.zeros((size, size), dtype=np.float64 if size <= SMALL else np.float32)
        if config.whole:
            x = interaction_matrix(train, weight)
            gram += (config.whole * (x.T @ x)).toarray()
        target = gram.copy()
        if config.whole < 1:
            past, fading = halving(config.half_life), 2 ** (-1 / config.half_life)
            share = (1 - config.whole) * (1 - fading**2)
            later = np.convolve(past, halving(config.reach))[:MOST_LATER]
            target += as_dense(what_followed(train, share * later, weight))
            ends = 1 - fading ** (2 * np.arange(len(past) + 1))  # with so many items after it
            pairs = as_dense(what_followed(train, (1 - config.whole) * fading * past, weight, ends))
            gram += pairs
            gram += pairs.T
            after = np.repeat(train.ptr[1:], train.counts) - 1 - np.arange(len(train.items))
            own = (1 - config.whole) * ends[np.minimum(after, len(past))]
            order = in_order_of_time(train)
            squares = own if weight is None else own * weight[order] ** 2
            gram[np.diag_indices(size)] += np.bincount(train.items[order], squares, size)
        gram[np.diag_indices(size)] += config.l2
        self.weight = solved_towards(self.place, gram, target, self.on_progress)

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        plain = super().cost(config, shape)
        pairs = sum(seconds_of_pairs(shape, halving(reach)) for reach in (config.half_life, config.reach))
        return Cost(plain.fit + 1.3e-11 * shape.num_items**3 + pairs, plain.rank, 20 * shape.num_items**2)
