"""SLIST: a linear item-to-item model of what comes next, solved in one step (Choi et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from accord.data.csr import Csr
from accord.kernels.neighbours import local_ridges, nearest
from accord.models.base import Cost, Shape
from accord.models.ease import SMALL, solved_towards
from accord.models.histories import DenseItemToItem, SparseItemToItem, interaction_matrix
from accord.models.item_knn import seconds_to_rank
from accord.models.sequences import (
    MOST_LATER,
    KnowsOrder,
    SequenceConfig,
    halving,
    in_order_of_time,
    seconds_of_pairs,
    what_followed,
)
from accord.models.sparse_ease import PAIRS_KEPT


def _regression(
    config: Any, train: Csr, weight: npt.NDArray[np.float64] | None, lay: Callable[[Any], Any]
) -> tuple[Any, Any, npt.NDArray[np.float64]]:
    """Of SLIST: a X'X + (1 - a) Z'Z + l2 and a X'X + (1 - a) Z'Y, as `lay` makes matrices [I, I] of sparse and dense
    parts, and what the diagonal of the first gets besides."""
    x, order, size = interaction_matrix(train, weight), in_order_of_time(train), train.num_items
    gram = lay(config.whole * (x.T @ x) if config.whole else sp.csr_matrix((size, size)))
    target, squares = gram.copy(), np.full(size, config.l2)
    if config.whole < 1:
        past, fading = halving(config.half_life), 2 ** (-1 / config.half_life)
        later = np.convolve(past, halving(config.reach))[:MOST_LATER]
        target += lay(what_followed(train, (1 - config.whole) * (1 - fading**2) * later, weight))
        ends = 1 - fading ** (2 * np.arange(len(past) + 1))  # with so many items after it
        pairs = lay(what_followed(train, (1 - config.whole) * fading * past, weight, ends))
        gram += pairs
        gram += pairs.T
        after = np.repeat(train.ptr[1:], train.counts) - 1 - np.arange(len(train.items))
        own = (1 - config.whole) * ends[np.minimum(after, len(past))]
        squares += np.bincount(train.items[order], own if weight is None else own * weight[order] ** 2, size)
    return gram, target, squares


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
        kind = np.float64 if self.num_items <= SMALL else np.float32

        def dense(part: Any) -> Any:  # by rows, as a run folder has weights: the last bit of a score depends on that
            return (part if isinstance(part, np.ndarray) else part.toarray()).astype(kind, "C")

        gram, target, squares = _regression(self.config, train, weight, dense)
        gram[np.diag_indices(self.num_items)] += squares
        self.weight = solved_towards(self.place, gram, target, self.on_progress)

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        plain = super().cost(config, shape)
        pairs = sum(seconds_of_pairs(shape, halving(reach)) for reach in (config.half_life, config.reach))
        return Cost(plain.fit + 1.3e-11 * shape.num_items**3 + pairs, plain.rank, 20 * shape.num_items**2)


class SparseSLIST(KnowsOrder, SparseItemToItem):
    """SLIST for catalogues that no matrix of items by items fits. Column j of W is the same regression on few items:
    the `neighbours` i != j with the largest m_ij / g_ii^.75, G and M being SLIST's (a X'X + (1 - a) Z'Z + l2) and
    (a X'X + (1 - a) Z'Y). Of G's entries the largest `PAIRS_KEPT` / I of each item count, as in sparse EASE."""

    name = "sparse-slist"
    summary = "slist for large catalogues: sparse weights, solved item by item"

    class Config(SLIST.Config):
        neighbours: int = Field(100, ge=1, le=2**12, description="items of a history that count for each item")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        config, size = self.config, self.num_items
        gram, target, squares = _regression(config, train, weight, lambda part: sp.csr_matrix(part, dtype=np.float64))
        diagonal, penalty = gram.diagonal() + squares, np.full(size, config.l2)
        ids, ones, none, as_it_is = np.arange(size), np.ones(size), np.zeros((size, 0)), sp.eye_array(size).tocsr()
        near = nearest(target.T.tocsr(), as_it_is, config.neighbours, ids, ones, diagonal**0.75, 0.0, np.float64)
        pairs = nearest(gram, as_it_is, max(config.neighbours, PAIRS_KEPT // size), ids, ones, ones, 0.0, np.float32)
        found, _ = local_ridges(near, pairs, diagonal, penalty, none, none, self.on_progress)
        ends = np.append(0, near.counts.cumsum())
        self.keep(sp.csr_matrix((found[near.mask], near.columns[near.mask], ends), shape=(size, size)).T.tocsr())

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        items, near = shape.num_items, min(config.neighbours, shape.num_items)
        entries = min(shape.by_user, items**2)
        fit = sum(seconds_of_pairs(shape, halving(reach)) for reach in (config.half_life, config.reach))
        fit += 4e-7 * entries + items * (8e-11 * near**3 + 2e-10 * near**2)
        rank = seconds_to_rank(shape, items * near, near)
        return Cost(fit, rank, 60 * entries + 8 * min(PAIRS_KEPT, items**2) + 100 * shape.num_interactions)
