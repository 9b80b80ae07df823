"""The one data type: interactions under the caller's own ids, and the row numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import InputError

IntArray = npt.NDArray[np.int64]
Ids = Any  # an Arrow array, a sequence or a numpy array of ids


class IdMap:
    """External ids <-> rows 0..n-1. The ids are unique, all int64 or all string."""

    def __init__(self, ids: pa.Array) -> None:
        assert ids.type in (pa.int64(), pa.string()), ids.type
        self.ids = ids

    @classmethod
    def of(cls, *columns: pa.Array | pa.ChunkedArray) -> IdMap:
        """Every id that occurs in the columns, in sorted order, so that row order never depends on file order."""
        chunks = [
            chunk
            for column in columns
            for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
        ]
        kind = pa.string() if any(pa.types.is_string(chunk.type) for chunk in chunks) else pa.int64()
        every = pc.unique(pa.chunked_array([chunk.cast(kind) for chunk in chunks], type=kind))
        return cls(every.take(pc.sort_indices(every)))

    @classmethod
    def range(cls, size: int) -> IdMap:
        """Ids that are row numbers already."""
        return cls(pa.array(np.arange(size), type=pa.int64()))

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: Ids) -> IntArray:
        """Row of each id; -1 where the id is unknown."""
        values = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
        if values.type != self.ids.type:
            values = self._as_own_type(values)
        found = pc.index_in(values, value_set=self.ids).fill_null(-1)
        return np.asarray(found, dtype=np.int64)

    def _as_own_type(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if self.ids.type == pa.string() or pa.types.is_integer(values.type):
            return values.cast(self.ids.type)
        # text for integer ids (the command line gives text): what is not an integer is unknown
        text = values.cast(pa.string())
        whole = pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")
        return pc.if_else(whole, text, pa.scalar(None, pa.string())).cast(pa.int64())

    def take(self, rows: npt.ArrayLike) -> pa.Array:
        """The external ids of rows."""
        return self.ids.take(pa.array(np.asarray(rows, dtype=np.int64)))


@dataclass(frozen=True)
class Interactions:
    """Rows of `user`, `item` (int64 or string ids), optionally `value` and `time` (float64 or int64)."""

    table: pa.Table

    def __post_init__(self) -> None:
        names = self.table.column_names
        assert names[:2] == ["user", "item"], names
        assert set(names[2:]) <= {"value", "time"}, names

    @classmethod
    def of(cls, user: Ids, item: Ids, value: Ids | None = None, time: Ids | None = None) -> Interactions:
        """From columns of equal length; ids are int64 or string already."""
        columns = {"user": user, "item": item, "value": value, "time": time}
        return cls(pa.table({name: column for name, column in columns.items() if column is not None}))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def has_value(self) -> bool:
        return "value" in self.table.column_names

    @property
    def has_time(self) -> bool:
        return "time" in self.table.column_names

    @property
    def users(self) -> pa.ChunkedArray:
        return self.table.column("user")

    @property
    def items(self) -> pa.ChunkedArray:
        return self.table.column("item")

    def column(self, name: str) -> npt.NDArray[Any]:
        """A value or time column as numpy."""
        values: npt.NDArray[Any] = self.table.column(name).to_numpy()
        return values

    def source_name(self, name: str) -> str:
        """What the source called this column: `rating` or `dwell` for `value`, say."""
        metadata = self.table.schema.field(name).metadata or {}
        source: bytes = metadata.get(b"source", name.encode())
        return source.decode()

    def pair_keys(self) -> IntArray:
        """One integer a pair, equal where user and item are equal."""
        users, items = IdMap.of(self.users), IdMap.of(self.items)
        return users.rows(self.users) * len(items) + items.rows(self.items)

    def merged(self) -> Interactions:
        """One row a pair: the latest by time or, without times, the last row."""
        keys = self.pair_keys()
        order = np.lexsort((self.column("time"), keys)) if self.has_time else np.argsort(keys, kind="stable")
        last = np.append(np.diff(keys[order]) != 0, True) if len(keys) else np.zeros(0, dtype=bool)
        return self if last.all() else self.take(np.sort(order[last]))

    def filter(self, keep: npt.NDArray[np.bool_]) -> Interactions:
        return Interactions(self.table.filter(pa.array(keep)))

    def take(self, rows: npt.ArrayLike) -> Interactions:
        return Interactions(self.table.take(pa.array(np.asarray(rows, dtype=np.int64))))


@dataclass(frozen=True)
class Csr:
    """Pairs of rows, sorted by user and then item: user u has items[ptr[u]:ptr[u + 1]]."""

    ptr: IntArray
    items: IntArray
    num_items: int

    @classmethod
    def of(cls, users: IntArray, items: IntArray, num_users: int, num_items: int, unique: bool = True) -> Csr:
        keys = users * num_items + items
        keys = np.unique(keys) if unique else np.sort(keys)
        ptr = np.zeros(num_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys // num_items, minlength=num_users), out=ptr[1:])
        return cls(ptr, keys % num_items, num_items)

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
    def keys(self) -> IntArray:
        """user * num_items + item, sorted: for membership tests."""
        return self.users * self.num_items + self.items

    def contains(self, users: IntArray, items: IntArray) -> npt.NDArray[np.bool_]:
        keys, wanted = self.keys, users * self.num_items + items
        if not len(keys):
            return np.zeros(len(wanted), dtype=bool)
        found: npt.NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        return found

    def merge(self, other: Csr) -> Csr:
        return Csr.of(
            np.concatenate([self.users, other.users]),
            np.concatenate([self.items, other.items]),
            self.num_users,
            self.num_items,
        )

    def popularity(self) -> IntArray:
        """Interactions of each item."""
        return np.bincount(self.items, minlength=self.num_items)


@dataclass(frozen=True)
class Dataset:
    """Interactions in train, valid and test, with one id map over all of them.

    `valid` holds every held-out validation pair; `valid_clean`, where there is one, only those known to be real
    preferences. `test` is the clean test; `test_noisy` what it was filtered from.
    """

    name: str
    train: Interactions
    valid: Interactions
    test: Interactions
    users: IdMap
    items: IdMap
    valid_clean: Interactions | None = None
    test_noisy: Interactions | None = None
    notes: tuple[str, ...] = field(default=())  # what the reader had to decide, one sentence each
    item_info: pa.Table | None = None  # a row for each row of `items`: title, and whatever else is known

    @classmethod
    def of(
        cls,
        name: str,
        train: Interactions,
        valid: Interactions,
        test: Interactions,
        valid_clean: Interactions | None = None,
        test_noisy: Interactions | None = None,
        notes: Sequence[str] = (),
    ) -> Dataset:
        if not len(train):
            raise InputError(f"{name}: no training interactions are left; give more data or another split.")
        parts = [part for part in (train, valid, test, valid_clean, test_noisy) if part is not None and len(part)]
        users = IdMap.of(*(part.users for part in parts))
        items = IdMap.of(*(part.items for part in parts))
        return cls(name, train, valid, test, users, items, valid_clean, test_noisy, tuple(notes))

    def csr(self, part: Interactions, unique: bool = True) -> Csr:
        return Csr.of(
            self.users.rows(part.users), self.items.rows(part.items), len(self.users), len(self.items), unique
        )

    def counts(self) -> dict[str, int]:
        """Users and items that occur in some part, and the size of each part."""
        parts = [
            part for part in (self.train, self.valid, self.test, self.test_noisy) if part is not None and len(part)
        ]
        return {
            "users": len(
                pc.unique(pa.chunked_array([c for p in parts for c in p.users.cast(self.users.ids.type).chunks]))
            ),
            "items": len(
                pc.unique(pa.chunked_array([c for p in parts for c in p.items.cast(self.items.ids.type).chunks]))
            ),
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.test),
        }
