"""The one data type: interactions under the caller's ids, and the row numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.columns import BATCHED, COLUMNS
from accord.data.csr import PAIRS_AT_ONCE, Csr, IntArray, Rows, pair_keys
from accord.data.sorting import argsort, lexsort, rises
from accord.errors import InputError

Ids = Any  # an Arrow array, a sequence or a numpy array of ids
DECODED_AT_ONCE = 2**24  # rows


class IdMap:
    """External ids <-> rows 0..n-1. The ids are unique, all int64 or all string."""

    def __init__(self, ids: pa.Array) -> None:
        assert ids.type in (pa.int64(), pa.string()), ids.type
        self.ids = ids

    @classmethod
    def of(cls, *columns: pa.Array | pa.ChunkedArray) -> IdMap:
        """Every id that occurs in the columns, in sorted order, so that row order never depends on file order."""
        chunks = [chunk for column in columns for chunk in getattr(column, "chunks", [column])]
        kind = pa.string() if any(pa.types.is_string(chunk.type) for chunk in chunks) else pa.int64()
        every = pc.unique(pa.chunked_array([chunk.cast(kind) for chunk in chunks], type=kind))
        return cls(every.take(pc.sort_indices(every)))

    @classmethod
    def over(cls, columns: Sequence[tuple[IdMap, Rows]]) -> IdMap:
        """Every id that occurs in columns of rows, each of which comes with its map."""
        used = {id(ids): np.zeros(len(ids), dtype=bool) for ids, _ in columns}
        for ids, rows in columns:
            mark(used[id(ids)], rows)
        if len(used) == 1 and used[id(ids)].all():
            return ids
        return cls.of(*{id(ids): ids.ids.filter(pa.array(used[id(ids)])) for ids, _ in columns}.values())

    @classmethod
    def range(cls, size: int) -> IdMap:
        return cls(pa.array(np.arange(size), type=pa.int64()))

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: Ids) -> IntArray:
        """Row of each id; -1 where the id is unknown."""
        values = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
        if values.type != self.ids.type:
            values = self._converted(values)
        return np.asarray(pc.index_in(values, value_set=self.ids).fill_null(-1), dtype=np.int64)

    def to(self, other: IdMap, rows: Rows) -> Rows:
        """Rows of this map as rows of another; -1 where the id is unknown there."""
        if other is self or other.ids.equals(self.ids):
            return rows
        return other.rows(self.ids).astype(np.int32)[rows]

    def _converted(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if self.ids.type == pa.string() or pa.types.is_integer(values.type):
            return values.cast(self.ids.type)
        # text for integer ids (the command line gives text): what is not an integer is unknown
        text = values.cast(pa.string())
        integers = pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")
        return pc.if_else(integers, text, pa.scalar(None, pa.string())).cast(pa.int64())

    def take(self, rows: npt.ArrayLike) -> pa.Array:
        return self.ids.take(pa.array(np.asarray(rows, dtype=np.int64)))


class Interactions:
    """Rows of `user`, `item` (int64 or string ids), and optionally of columns that stay aligned with them to the loss:
    `value` and `time` (float64 or int64), `weight` (what a row counts for), `label` (1 real, 0 noise, null unknown).

    Ids are held as their rows in id maps, four bytes each, which all that is filtered or taken shares; `table`, `users`
    and `items` look up the ids themselves.

    >>> import pyarrow as pa
    >>> accord.Interactions.of(pa.array(["ann", "bob"]), pa.array(["x", "y"]), weight=pa.array([1.0, 0.5]))
    Interactions(2 rows of user, item, weight)
    """

    def __init__(self, table: pa.Table, ids: tuple[IdMap, IdMap] | None = None, stored: Csr | None = None) -> None:
        """With `ids`, the user and item columns of the table are int32 rows in these maps already. `stored` is the
        matrix of these rows, where it lies in the file of a store."""
        names = table.column_names
        assert names[:2] == ["user", "item"], names
        assert set(names[2:]) <= {*COLUMNS, "p_real"}, names  # which labels teach of a validation
        if ids is None:
            ids = IdMap.of(table.column("user")), IdMap.of(table.column("item"))
            for place, id_map in enumerate(ids):
                rows = pa.array(id_map.rows(table.column(place)), type=pa.int32())
                table = table.set_column(place, names[place], rows)
        self.rows, self.user_ids, self.item_ids, self.stored = table, *ids, stored

    @classmethod
    def of(cls, user: Ids, item: Ids, *in_order: Ids | None, **named: Ids | None) -> Interactions:
        """From arrays of equal length: ids that are int64 or string already, and columns in the order value, time,
        weight, label or by name."""
        given = dict(zip(COLUMNS, in_order, strict=False)) | named
        return cls(pa.table({"user": user, "item": item, **{n: c for n, c in given.items() if c is not None}}))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __repr__(self) -> str:
        return f"Interactions({len(self):,} rows of {', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        return list(self.rows.column_names)

    @property
    def has_value(self) -> bool:
        return "value" in self.names

    @property
    def has_time(self) -> bool:
        return "time" in self.names

    @property
    def users(self) -> pa.ChunkedArray:
        return self._ids("user", self.user_ids)

    @property
    def items(self) -> pa.ChunkedArray:
        return self._ids("item", self.item_ids)

    @property
    def table(self) -> pa.Table:
        return self.rows.set_column(0, "user", self.users).set_column(1, "item", self.items)

    def _ids(self, name: str, ids: IdMap) -> pa.ChunkedArray:
        # in parts, because an Arrow array of strings has at most 2 GiB of them
        rows = pa.table([self.rows.column(name)], names=[name]).to_batches(max_chunksize=DECODED_AT_ONCE)
        return pa.chunked_array([ids.ids.take(part.column(0)) for part in rows], type=ids.ids.type)

    def rows_in(self, users: IdMap, items: IdMap) -> tuple[Rows, Rows]:
        """The rows of each user and item in other id maps; -1 where the id is unknown there."""
        user, item = self.column("user"), self.column("item")
        return self.user_ids.to(users, user), self.item_ids.to(items, item)

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column as numpy, NaN where it is empty; for `user` and `item` their rows in the id maps."""
        values: npt.NDArray[Any] = self.rows.column(name).to_numpy()
        return values

    def source_name(self, name: str) -> str:
        """What the source called this column: `rating` or `dwell` for `value`, say."""
        metadata = self.rows.schema.field(name).metadata or {}
        source: bytes = metadata.get(b"source", name.encode())
        return source.decode()

    def pair_keys(self) -> IntArray:
        """One integer a pair, equal where user and item are equal, in the order of user and item ids."""
        return pair_keys(self.column("user"), self.column("item"), len(self.item_ids))

    def merged(self, ordered: bool = False) -> Interactions:
        """One row a pair: the latest by time or, without times, the last row.
        They stay in the order they are in, or with `ordered` go by user and item ids."""
        if self.stored is not None or rises(keys := self.pair_keys()):
            return self
        order = argsort(keys)
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)  # of each pair, in the order of the rows
        if not last.all() and self.has_time:
            repeated = np.flatnonzero(~last | np.append(False, ~last[:-1]))
            by_time = lexsort([self.column("time")[order[repeated]], keys[repeated]])
            order[repeated] = order[repeated[by_time]]
        del keys
        if ordered:
            return self.take(order[last])
        return self if last.all() else self.take(np.sort(order[last]))

    def without(self, name: str) -> Interactions:
        """The same without a column; itself, where it has none of that name."""
        if name not in self.names:
            return self
        return Interactions(self.rows.drop_columns([name]), (self.user_ids, self.item_ids), self.stored)

    def with_column(self, name: str, column: pa.Array) -> Interactions:
        """The same with a column, in place of the one of that name where there is one."""
        rows = self.without(name).rows.append_column(name, column)
        return Interactions(rows, (self.user_ids, self.item_ids), self.stored)

    def filter(self, keep: npt.NDArray[np.bool_]) -> Interactions:
        return Interactions(self.rows.filter(pa.array(keep)), (self.user_ids, self.item_ids))

    def slice(self, start: int, length: int) -> Interactions:
        return Interactions(self.rows.slice(start, length), (self.user_ids, self.item_ids))

    def take(self, rows: npt.ArrayLike) -> Interactions:
        places = np.asarray(rows)
        indices = pa.array(places if places.dtype == np.int32 else places.astype(np.int64))
        return Interactions(self.rows.take(indices), (self.user_ids, self.item_ids))


def mark(used: npt.NDArray[np.bool_], rows: Rows) -> None:
    """used[rows] = True, which numpy would copy all rows for."""
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        used[rows[start : start + PAIRS_AT_ONCE]] = True


@dataclass(frozen=True)
class Dataset:
    """Interactions in train, valid and test, with one id map over all of them.

    `valid` holds every held-out validation pair; `valid_clean`, where there is one, only those that are real
    preferences. `test` is the clean test; `test_noisy` what it was filtered from.

    >>> accord.load("demo")
    Dataset(demo: 1,000 users, 600 items, 32,000 train, 4,000 valid, 2,935 test)
    """

    name: str
    train: Interactions
    valid: Interactions
    test: Interactions
    users: IdMap
    items: IdMap
    valid_clean: Interactions | None = None
    test_noisy: Interactions | None = None
    notes: tuple[str, ...] = field(default=())  # what the reader decided, one sentence each
    item_info: pa.Table | None = None  # a row for each row of `items`: title and any other columns
    outside: Interactions | None = None  # pairs that are in none of these parts and have a label
    _matrices: dict[Any, Csr] = field(default_factory=dict, init=False, repr=False, compare=False)  # made once

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
        users = IdMap.over([(part.user_ids, part.column("user")) for part in parts])
        items = IdMap.over([(part.item_ids, part.column("item")) for part in parts])
        return cls(name, train, valid, test, users, items, valid_clean, test_noisy, tuple(notes))

    def __repr__(self) -> str:
        parts: dict[str, Sized] = {name: getattr(self, name) for name in ("users", "items", "train", "valid", "test")}
        sizes = {name: len(part) for name, part in parts.items()}
        return f"Dataset({self.name}: {', '.join(f'{size:,} {name}' for name, size in sizes.items())})"

    def rows(self, part: Interactions) -> tuple[Rows, Rows]:
        """The user and item rows of a part: `users.rows(part.users)` and the same of items, without a look at the ids
        where the part shares the dataset's id maps."""
        return part.rows_in(self.users, self.items)

    def csr(self, part: Interactions, unique: bool = True, columns: Sequence[str] = ()) -> Csr:
        """The pairs of a part as a matrix, with those of the columns that it has."""
        present = tuple(name for name in columns if name in part.names)
        key = id(part), unique, present
        if key in self._matrices:
            return self._matrices[key]
        named = {name: np.require(part.column(name), requirements="W") for name in present}  # as torch wants arrays
        if part.stored is not None and part.user_ids is self.users and part.item_ids is self.items:
            matrix = replace(part.stored, columns=named) if named else part.stored
        else:
            matrix = Csr.of(*self.rows(part), len(self.users), len(self.items), unique, named)
        if any(part is one for one in (self.train, self.valid, self.test, self.valid_clean, self.test_noisy)):
            self._matrices[key] = matrix  # these parts live as long as the dataset, so no other gets their id
        return matrix

    def training_csr(self, columns: Sequence[str] = ()) -> Csr:
        """The training interactions as a matrix, with the columns that they have of those given to the loss, and of
        others by name."""
        return self.csr(self.train, columns=tuple(dict.fromkeys((*BATCHED, *columns))))

    @property
    def labelled_outside(self) -> Csr | None:
        """The pairs outside the log as a matrix, with their labels; None where there are none."""
        return None if self.outside is None else self.csr(self.outside, columns=("label",))

    def everything(self) -> Dataset:
        """The whole log as training data: nothing is held out."""
        train = self._joined([self.train, self.valid, self.test_noisy or self.test])
        none = train.slice(0, 0)
        return replace(self, train=train, valid=none, test=none, valid_clean=None, test_noisy=None)

    def held_out_besides(self, valid: Interactions) -> Interactions:
        """What is held out besides a validation: the test with its noise, and validation pairs that are not in it."""
        parts = [self.test_noisy or self.test] if valid is self.valid else [self.valid, self.test_noisy or self.test]
        return self._joined(parts)

    def before_test(self, valid: Interactions) -> Dataset:
        """The same with a validation among the training data."""
        train = self._joined([self.train, valid])
        return replace(self, train=train, valid=train.slice(0, 0), valid_clean=None)

    @cached_property
    def comes_in_order(self) -> bool:
        """Whether all have times, and by these a user's validation comes after the training and the test after both.
        Times that are the same for all of every user's interactions give no order."""
        return self._rises((self.train, self.valid, self.test_noisy or self.test))

    @cached_property
    def validation_is_later(self) -> bool:
        """The same of the validation and the training alone."""
        return self._rises((self.train, self.valid))

    @property
    def is_split_at_a_moment(self) -> bool:
        """Whether all have times, and the training is earlier than the whole test."""
        test = self.test_noisy or self.test
        if not (len(test) and test.has_time and self.train.has_time):
            return False
        return bool(self.train.column("time").max() < test.column("time").min())

    def _rises(self, parts: Sequence[Interactions]) -> bool:
        latest, differ = np.full(len(self.users), -np.inf), False
        for part in parts:
            if not len(part) or not part.has_time:
                return False
            users, times = self.rows(part)[0], part.column("time")
            if not (times >= latest[users]).all():
                return False
            differ |= bool(((times > latest[users]) & (latest[users] > -np.inf)).any())
            np.maximum.at(latest, users, times)
        return differ

    def _joined(self, parts: Sequence[Interactions]) -> Interactions:
        """Parts one after another, in the dataset's id maps."""
        parts = [part for part in parts if len(part)] or [self.train.slice(0, 0)]
        names = [name for name in COLUMNS if any(name in part.names for part in parts)]
        defaults = {name: COLUMNS[name].default for name in names if COLUMNS[name].default is not None}
        tables = []
        for part in parts:
            columns = dict(zip(("user", "item"), (pa.array(rows, pa.int32()) for rows in self.rows(part)), strict=True))
            columns |= {name: part.rows.column(name) for name in names if name in part.names}
            for name, default in defaults.items():
                columns[name] = pc.fill_null(columns.get(name, pa.nulls(len(part), pa.float64())), default)
            tables.append(pa.table(columns))
        whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
        whole, called = whole.select(["user", "item", *names]), self.train.rows.schema  # what the source calls columns
        fields = [f.with_metadata(called.field(f.name).metadata) if f.name in called.names else f for f in whole.schema]
        return Interactions(whole.cast(pa.schema(fields)), (self.users, self.items))

    def counts(self) -> dict[str, int]:
        """Users and items that occur in some part, and the size of each part."""
        used = np.zeros(len(self.users), dtype=bool), np.zeros(len(self.items), dtype=bool)
        for part in (self.train, self.valid, self.test, self.test_noisy):
            if part is not None:
                for seen, rows in zip(used, self.rows(part), strict=True):
                    mark(seen, rows)
        return {
            "users": int(used[0].sum()),
            "items": int(used[1].sum()),
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.test),
        }
