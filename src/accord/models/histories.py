"""What the models that score from a history have in common: the histories, and item-to-item weights that are dense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.errors import InputError
from accord.kernels.lookups import places_of
from accord.models.base import Model, Setup


def interaction_matrix(train: Csr, weight: npt.NDArray[np.float64] | None = None) -> Any:
    """X [U, I], sparse: what each interaction counts for, 1 if not given."""
    counts = np.ones(len(train.items)) if weight is None else weight
    return sp.csr_matrix((counts, train.items, train.ptr), shape=(train.num_users, train.num_items))


def clean_target(train: Csr, x: Any) -> Any:
    """x, as `interaction_matrix` gives it, times p_real of every interaction where the log has such a column."""
    p_real = train.columns.get("p_real")
    return x if p_real is None else sp.csr_matrix((x.data * p_real, x.indices, x.indptr), shape=x.shape)


def item_quality(train: Csr, p_real: npt.NDArray[np.float64], prior: float = 5.0) -> npt.NDArray[np.float64]:
    """The logit of the share of an item's interactions that are real, drawn to that of all as if there were `prior`
    more of these: [I], of mean 0."""
    total = np.bincount(train.items, p_real, train.num_items)
    mean = float(p_real.mean())
    share = np.clip((total + prior * mean) / (train.popularity() + prior), 1e-3, 1 - 1e-3)
    logit = np.log(share / (1 - share))
    found: npt.NDArray[np.float64] = logit - logit.mean()
    return found


def power_or_zero(sums: npt.NDArray[np.float64], power: float) -> npt.NDArray[np.float64]:
    """sums^power, and 0 for who has nothing."""
    found = np.zeros(len(sums))
    np.power(sums, power, out=found, where=sums > 0)
    return found


def k_best(rows: Any, k: int) -> Any:
    """A sparse matrix (CSR) with the k largest entries of each row alone; of equal ones those in earlier columns."""
    counts = np.diff(rows.indptr)
    least = np.full(len(counts), -np.inf, dtype=rows.data.dtype)  # the k-th largest of each row that has more
    for row in np.flatnonzero(counts > k):  # linear in the entries, where sorting them all is not
        least[row] = np.partition(rows.data[rows.indptr[row] : rows.indptr[row + 1]], -k)[-k]
    rows = _entries(rows, rows.data >= np.repeat(least, counts))
    rows.sort_indices()
    counts = np.diff(rows.indptr)
    order = np.lexsort((-rows.data, np.repeat(np.arange(len(counts)), counts)))  # stable: equal ones stay as they are
    kept = np.zeros(len(order), dtype=bool)
    kept[order[np.arange(len(order)) - np.repeat(rows.indptr[:-1], counts) < k]] = True
    return _entries(rows, kept)


def _entries(rows: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Some of the entries of a CSR matrix."""
    ends = np.append(0, kept.cumsum())[rows.indptr]
    return sp.csr_matrix((rows.data[kept], rows.indices[kept], ends), shape=rows.shape)


@contextmanager
def one_thread() -> Iterator[None]:
    """A time in which torch has one thread: with several, the last bits may depend on how many there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class FromHistory(Model):
    """A solved model that knows its users by their histories alone: these are of the run, not of its weights."""

    solved = True
    logits = False

    ptr: Tensor
    items: Tensor
    history_weight: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)
        weight = train.columns.get("weight")  # a history counts as it did when the model was fitted
        counts = None if weight is None else torch.from_numpy(weight).float()
        self.register_buffer("history_weight", counts, persistent=False)

    def histories(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The histories of users [B], end to end: each entry's place in `users`, its item, where each history starts,
        and what each entry counts for (None: 1)."""
        owner, places, starts = places_of(self.ptr, users)
        counts = None if self.history_weight is None else self.history_weight[places]
        return owner, self.items[places].long(), starts, counts


class DenseItemToItem(FromHistory):
    """Scores X W with dense weights W [I, I]: what an item of a history adds to the score of each other."""

    most_items = 30_000
    needs: ClassVar[str] = "keeps an items x items matrix"

    weight: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        if setup.num_items > self.most_items:
            raise InputError(
                f"{self.name} {self.needs}, and {setup.num_items:,} items are too many for that "
                f"(at most {self.most_items:,}); choose another model."
            )
        self.register_buffer("weight", torch.empty(setup.num_items, setup.num_items, dtype=torch.float32))

    @classmethod
    def least_numbers(cls, options: Mapping[str, Any], runs: int, num_users: int, num_items: int) -> int:
        return num_items**2

    def score_all(self, users: Tensor) -> Tensor:
        _, items, starts, counts = self.histories(users)
        return F.embedding_bag(items, self.weight, starts, mode="sum", per_sample_weights=counts).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        return self.weight[history].sum(0, keepdim=True)

    def item_to_item(self) -> Tensor:
        return self.weight
