"""Sparse EASE: EASE for catalogues whose items x items matrix is too large to be inverted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field

from accord.data.csr import Csr
from accord.kernels.neighbours import local_ridges, nearest_items
from accord.models.base import MOST_WIDE, Cost, Setup, Shape
from accord.models.histories import (
    HistoryConfig,
    SparseItemToItem,
    WithFactors,
    interaction_matrix,
    one_thread,
    power_or_zero,
)
from accord.random import generators

PAIRS_KEPT = 2**28  # of the entries of x'x, the largest of each item
ROUNDS = 4  # of the iteration that finds the singular vectors
MORE = 8  # vectors that it carries along


class SparseEASE(WithFactors, SparseItemToItem):
    """Scores X W. Column j of W is EASE's ridge regression of x_j on the other items, with weights of the form

    w_i = v_i a_j + b_ij, b_ij = 0 but for the `neighbours` of j that explain it best, each alone, among those taken
    with it; V [I, d] the first singular vectors of X.

    With all items as neighbours that is EASE. A regression has neighbours + dim unknowns, and of G = X'X it needs what
    lies between neighbours: of each item's entries the `PAIRS_KEPT` / I largest are kept, others are taken as 0.
    Memory: 8 (dim + neighbours) bytes an item; while fitting 8 for each pair that is kept and 100 an interaction."""

    name = "sparse-ease"
    summary = "ease for large catalogues: sparse weights and a few vectors, solved item by item"
    most_items = 5_000_000

    class Config(HistoryConfig):
        l2: float = Field(500.0, gt=0, description="ridge penalty")
        neighbours: int = Field(50, ge=1, le=2**12, description="items that have a weight of their own for an item")
        dim: int = Field(64, ge=0, le=MOST_WIDE, description="vectors by which all other items count")
        dropout: float = Field(0.0, ge=0, lt=1, description="share of each history dropped at random, in expectation")
        user_norm: float = Field(0.0, ge=0, le=1, description="fitting scales a user of n interactions by n^-user_norm")

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup, min(config.dim, setup.num_items - 1, setup.num_users))

    @classmethod
    def least_numbers(cls, options: Mapping[str, Any], runs: int, num_users: int, num_items: int) -> int:
        dim: int = options.get("dim", cls.Config.model_fields["dim"].default)
        return 2 * num_items * max(0, min(dim, num_items - 1, num_users))

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        users, items, pairs = shape.num_users, shape.num_items, shape.num_interactions
        near, dim = min(config.neighbours, items), min(config.dim, items)
        size, stored = near + dim, min(PAIRS_KEPT, items**2)
        fit = 5e-9 * shape.by_user + items * (8e-11 * size**3 + 2e-10 * size**2)
        fit += 2e-10 * min(stored, shape.by_user) * near + 8e-9 * pairs * (dim + MORE)
        rank = 2e-9 * pairs * near + users * items * (1e-9 + 5e-11 * dim)
        return Cost(fit, rank, 8 * stored + items * (24 * near + 40 * (dim + MORE)) + 100 * pairs)

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        config, x = self.config, interaction_matrix(train, weight)
        if config.user_norm:
            x = (sp.diags_array(power_or_zero(x.sum(1).A1, -config.user_norm)) @ x).tocsr()
        sizes = np.asarray(x.multiply(x).sum(0)).ravel()  # [I]
        penalty = config.l2 + config.dropout / (1 - config.dropout) * sizes
        diagonal, ones = sizes + penalty, np.ones(self.num_items)
        basis = self._singular_vectors(x)
        image = x.T @ (x @ basis) + penalty[:, None] * basis
        near = nearest_items(x, config.neighbours, diagonal**0.75, ones, on_progress=self._part(0, 0.2))
        most = max(config.neighbours, PAIRS_KEPT // self.num_items)
        pairs = nearest_items(x, most, ones, ones, dtype=np.float32, on_progress=self._part(0.2, 0.4))
        weights, spread = local_ridges(near, pairs, diagonal, penalty, basis, image, self._part(0.4, 1))
        ids = np.arange(self.num_items, dtype=np.int32)[:, None]
        itself = -(basis * spread).sum(1, keepdims=True)  # of which an item says nothing
        there = np.hstack([near.mask, ids >= 0])
        columns, values = (np.hstack(both)[there] for both in ([near.columns, ids], [weights, itself]))
        ends = np.append(0, (near.counts + 1).cumsum())
        self.keep(sp.csr_matrix((values, columns, ends), shape=(self.num_items, self.num_items)).T.tocsr())
        self.basis, self.spread = torch.from_numpy(basis).float(), torch.from_numpy(spread)

    def _part(self, start: float, end: float) -> Callable[[float], None] | None:
        on_progress = self.on_progress
        return None if on_progress is None else lambda share: on_progress(start + (end - start) * share)

    def _singular_vectors(self, x: Any) -> npt.NDArray[np.float64]:
        """The first right singular vectors [I, d], by iterating on a few more."""
        wide = min(self.dim + MORE, self.num_items) if self.dim else 0
        (stream,) = generators((0,), self.name)
        result = torch.randn(self.num_items, wide, generator=stream, dtype=torch.float64)
        with one_thread():
            for _ in range(ROUNDS if wide else 0):
                result = torch.linalg.qr(torch.from_numpy(x.T @ (x @ result.numpy())))[0]
            small = torch.from_numpy(x @ result.numpy())
            turn = torch.linalg.eigh(small.mT @ small)[1].flip(1)[:, : self.dim] if wide else result[:0]
            return (result @ turn).numpy() if wide else result.numpy()
