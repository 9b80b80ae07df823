"""Pairs of user and item rows as a sparse matrix, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.data.sorting import rises

IntArray = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.integer[Any]]  # row numbers: int32 within Interactions, int64 where they are computed with
LONG_AT_MOST = 2**24  # pairs whose items are int64: of more, half the memory is worth more than the conversions
PAIRS_AT_ONCE = 2**22  # of a matrix that may be larger than memory


def pair_keys(users: Rows, items: Rows, num_items: int) -> IntArray:
    """user * num_items + item, which may be beyond what the rows themselves need."""
    keys = users.astype(np.int64)
    keys *= num_items
    keys += items
    return keys


@dataclass(frozen=True)
class Csr:
    """Pairs of rows, sorted by user and then item: user u has items[ptr[u]:ptr[u + 1]].
    Items are int64, or int32 where they are very many or lie in the file of a store; `stored_users` are then the
    users of the pairs.
    `columns` hold the other columns of each pair, in the same order."""

    ptr: IntArray
    items: Rows
    num_items: int
    stored_users: Rows | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, users: Rows, items: Rows, num_users: int, num_items: int, unique: bool = True,
        columns: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Csr:  # fmt: skip
        """Of a pair that is there more than once, `unique` keeps one, with the columns of its last row."""
        keys = pair_keys(users, items, num_items)
        columns = dict(columns or {})
        if not rises(keys):
            if columns:
                order = np.argsort(keys, kind="stable")
                if unique:
                    order = order[np.append(keys[order[1:]] != keys[order[:-1]], True)]
                columns = {name: values[order] for name, values in columns.items()}
            keys.sort()
            keys = keys[np.append(True, keys[1:] != keys[:-1])] if unique else keys
        ptr = np.searchsorted(keys, np.arange(num_users + 1, dtype=np.int64) * num_items)
        keys %= num_items
        return cls(ptr, keys if len(keys) <= LONG_AT_MOST else keys.astype(np.int32), num_items, columns=columns)

    @property
    def num_users(self) -> int:
        return len(self.ptr) - 1

    @property
    def counts(self) -> IntArray:
        return np.diff(self.ptr)

    @property
    def users(self) -> IntArray:
        return np.repeat(np.arange(self.num_users), self.counts)

    @property
    def owners(self) -> Rows:
        """The users in whatever integers there are: to be looked up with, not computed with."""
        if self.stored_users is not None:
            return self.stored_users
        return np.repeat(np.arange(self.num_users, dtype=self.items.dtype), self.counts)

    @property
    def keys(self) -> IntArray:
        """user * num_items + item, sorted: for membership tests."""
        return pair_keys(self.users, self.items, self.num_items)

    def key_parts(self) -> Iterator[IntArray]:
        """`keys`, a bounded number at a time."""
        for start in range(0, len(self.items), PAIRS_AT_ONCE):
            items = self.items[start : start + PAIRS_AT_ONCE]
            users = np.searchsorted(self.ptr, np.arange(start, start + len(items)), side="right") - 1
            yield pair_keys(users, items, self.num_items)

    def contains(self, users: Rows, items: Rows) -> npt.NDArray[np.bool_]:
        keys, wanted = self.keys, pair_keys(users, items, self.num_items)
        if not len(keys):
            return np.zeros(len(wanted), dtype=bool)
        present: npt.NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        return present

    def merge(self, other: Csr) -> Csr:
        from scipy.sparse import csr_array  # here: `accord data check` need not wait for it

        shape = self.num_users, self.num_items
        one, two = (csr_array((np.ones(len(csr.items), bool), csr.items, csr.ptr), shape) for csr in (self, other))
        both = one + two
        kind = np.int64 if both.nnz <= LONG_AT_MOST else np.int32
        return Csr(both.indptr.astype(np.int64), both.indices.astype(kind), self.num_items)

    def popularity(self) -> IntArray:
        counts = np.zeros(self.num_items, dtype=np.int64)
        for start in range(0, len(self.items), PAIRS_AT_ONCE):
            counts += np.bincount(self.items[start : start + PAIRS_AT_ONCE], minlength=self.num_items)
        return counts
