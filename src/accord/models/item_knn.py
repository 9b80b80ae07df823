"""Item-kNN: items that the same users took, the nearest few of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.models.base import Model, Setup
from accord.models.histories import clean_target, interaction_matrix, k_best, power_or_zero

ENTRIES_AT_ONCE = 2**24  # of the items x items matrix, of which only the k best of each column are kept
MOST_DENSE = 10_000  # items up to which all weights can be laid out as one dense matrix


class ItemKNN(Model):
    """Scores X W, W sparse: w_ij = c_ij / (n_i^e n_j^(1-e) + shrink) where i is among the k nearest of item j.

    c = X'X without its diagonal, n_i = c_ii: the interactions of an item, where none has a weight.
    Memory: 8 bytes for each of at most k I weights; while fitting, 48 for each of `ENTRIES_AT_ONCE` entries of c too.
    """

    name = "item-knn"
    summary = "items that the same users took: the nearest of each, by a shrunk cosine"
    solved = True
    logits = False

    class Config(BaseConfig):
        k: int = Field(200, ge=1, le=2**20, description="nearest items of each item")
        balance: float = Field(
            0.75,
            ge=0,
            le=1,
            description="a weight is divided by the popularity of: 1, the history's item; 0, the other",
        )
        shrink: float = Field(100.0, ge=0, description="added to the norm: items that few took together count less")
        clean: bool = Field(False, description="count p_real of the other item, where it is known, not its interaction")

        @model_serializer(mode="wrap")
        def _as_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
            """As in files from before there was `clean`: results keep their keys."""
            return {name: value for name, value in written(self).items() if value or name != "clean"}

    ends: Tensor
    columns: Tensor
    values: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        self.histories = interaction_matrix(train, train.columns.get("weight")).astype(np.float32)  # [U, I]
        self.register_buffer("ends", torch.zeros(setup.num_items + 1, dtype=torch.int64))  # W row by row, as CSR has it
        self.register_buffer("columns", torch.empty(0, dtype=torch.int32))
        self.register_buffer("values", torch.empty(0, dtype=torch.float32))

    @property
    def weights(self) -> Any:
        """W [I, I], sparse; nothing is copied on a CPU."""
        parts = [part.cpu().numpy() for part in (self.values, self.columns, self.ends)]
        return sp.csr_matrix(tuple(parts), shape=(self.num_items, self.num_items))

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = interaction_matrix(train, weight)
        target = clean_target(train, x) if self.config.clean else x
        weights = nearest(x, self.config.k, self.config.balance, self.config.shrink, target).T.tocsr()
        self.ends = torch.from_numpy(weights.indptr.astype(np.int64))
        self.columns = torch.from_numpy(weights.indices.astype(np.int32))
        self.values = torch.from_numpy(weights.data.astype(np.float32))

    def make_room(self, tensors: Mapping[str, Tensor]) -> None:
        ends, columns = (tensors[name].long() for name in ("ends", "columns"))
        whole = len(ends) == self.num_items + 1 and int(ends[0]) == 0 and int(ends[-1]) == len(columns)
        if not whole or (ends.diff() < 0).any() or ((columns < 0) | (columns >= self.num_items)).any():
            raise ValueError("its weights are of no matrix of items by items")
        self.columns, self.values = torch.empty(len(columns), dtype=torch.int32), torch.empty(len(columns))

    def bytes_to_fit(self, pairs: int) -> int:
        k: int = min(self.config.k, self.num_items)
        return 48 * min(ENTRIES_AT_ONCE, self.num_items**2) + 24 * self.num_items * k + 48 * pairs

    def score_all(self, users: Tensor) -> Tensor:
        scores = (self.histories[users.cpu().numpy()] @ self.weights).toarray()
        return torch.from_numpy(scores).to(self.values.device).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        rows = self.weights[history.cpu().numpy()].sum(0)
        return torch.from_numpy(np.asarray(rows)).to(self.values.device)

    def item_to_item(self) -> Tensor | None:
        if self.num_items > MOST_DENSE:
            return None
        return torch.from_numpy(self.weights.toarray()).to(self.values.device)


def nearest(x: Any, k: int, balance: float, shrink: float, target: Any = None) -> Any:
    """W' [I, I], sparse: row j has the weights of the k items i nearest to item j; with a target y, c = x'y."""
    return sp.vstack(list(_nearest(x, k, balance, shrink, x if target is None else target)), format="csr")


def _nearest(x: Any, k: int, balance: float, shrink: float, target: Any) -> Iterator[Any]:
    """Rows j of W', for a bounded number of items at a time."""
    by_item, num_items = target.T.tocsr(), x.shape[1]
    sizes = x.multiply(x).sum(0).A1  # [I]
    own, other = (power_or_zero(sizes, power) for power in (balance, 1 - balance))
    takers = np.diff(x.indptr)
    costs = by_item.astype(bool) @ takers  # at most so many entries in a row of c
    parts = np.minimum(costs, num_items).cumsum() // ENTRIES_AT_ONCE
    for rows in np.split(np.arange(num_items), np.flatnonzero(np.diff(parts)) + 1):
        found = (by_item[rows] @ x).tocoo()
        apart = found.col != rows[found.row]
        row, col, together = found.row[apart], found.col[apart], found.data[apart]
        alike = together / (own[col] * other[rows[row]] + shrink)
        yield k_best(sp.csr_matrix((alike, (row, col)), shape=found.shape), k)
