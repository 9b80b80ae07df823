"""Batches of columns -> Interactions. Ids become row numbers batch by batch, so a log is never in memory as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import columns as col
from accord.data import times
from accord.data.columns import Column, Columns
from accord.data.interactions import IdMap, Interactions
from accord.errors import ColumnArgument, InputError, shown

ENCODED_AT_ONCE = 2**20  # ids, or as many as there are distinct ones: all of those are hashed again each time
DENSE = 8  # integer ids are looked up in a table if it is at most this many times as long as the ids


def encoded(
    source: str,
    batches: Iterable[pa.RecordBatch],
    chosen: Columns,
    from_text: bool,
    guessed: Collection[str] = (),
    several: bool = False,
) -> tuple[Interactions, list[str]]:
    """Interactions of the chosen columns of batches, row for row, and what had to be decided.

    A value or time that cannot be read is left out if its role is among `guessed`, and an error otherwise. With
    `several`, one user or one item alone is an error.
    """
    ids = {role: Ids(source, role, str(getattr(chosen, role)), from_text) for role in ("user", "item")}
    numbers = {role: Numbers(source, role, name) for role in col.ROLES[2:] if (name := getattr(chosen, role))}
    rows, called = 0, dict[str, Any]()
    for batch in batches:
        if not batch.num_rows:
            continue
        for id_column in ids.values():
            id_column.add(batch.column(id_column.name))
        for column in numbers.values():
            column.add(batch.column(column.name))
            called[column.name] = (batch.field(column.name).metadata or {}).get(b"source", column.name)
        rows += batch.num_rows
    if not rows:
        raise InputError(f"{source} is empty: it has no rows of interactions; give a log that has some.")

    arrays, maps, fields, notes = list[Any](), [], [], list[str]()
    for role in ("user", "item"):
        column_of_ids = ids.pop(role)
        name = column_of_ids.name
        known, codes = column_of_ids.finish()
        notes += column_of_ids.notes
        if several:
            refuse_only_one(source, role, name, known)
        arrays.append(pa.array(codes))
        maps.append(known)
        fields.append(pa.field(role, pa.int32()))
    if from_text:
        refuse_header(source, chosen, maps, arrays)
    for role in list(numbers):
        column = numbers.pop(role)
        if column.error is not None:
            if role not in guessed:
                raise column.error
            notes.append(left_out(column.error))
            continue
        notes += column.notes()
        array = column.taken()
        missing = pc.sum(pc.is_null(array, nan_is_null=True)).as_py()
        if missing and role != "label":  # which most rows may be without
            notes.append(have_none(source, role, missing))
        arrays.append(array)
        fields.append(pa.field(role, array.type, metadata={"source": called[column.name]}))
    return Interactions(pa.table(arrays, schema=pa.schema(fields)), (maps[0], maps[1])), notes


def left_out(error: InputError) -> str:
    return f"{error} It was only guessed, so it is left out."


def have_none(source: str, role: str, missing: int) -> str:
    return f"{source}: {missing} rows have no {role}; a clean rule does not count them as real."


def refuse_only_one(source: str, role: str, name: str, known: IdMap) -> None:
    if len(known) == 1:
        raise InputError(
            f"{source} has only one {role} ({shown(known.ids[0].as_py())}) in column '{name}'; at least two are needed:"
            " check ",
            ColumnArgument(role),
            ".",
        )


def refuse_header(source: str, chosen: Columns, known: Sequence[IdMap], codes: Sequence[pa.Array]) -> None:
    """A header line among the rows, as where files were put one after the other, would be a user and an item."""
    user, item = (ids.rows([name])[0] for ids, name in zip(known, (chosen.user, chosen.item), strict=True))
    if user < 0 or item < 0:
        return
    found = np.flatnonzero((np.asarray(codes[0]) == user) & (np.asarray(codes[1]) == item))
    if len(found):
        raise InputError(f"{source}: row {found[0] + 1} is the header line again; remove it.")


class Ids:
    """A column of ids on its way to row numbers. Distinct ids are numbered as they come, and sorted at the end."""

    def __init__(self, source: str, role: str, name: str, from_text: bool) -> None:
        self.name = name
        self.refuse = partial(col.refuse_ids, source, role, name)
        self.as_ids = partial(col.as_ids, source, role, name, from_text=from_text)
        self.no_id = partial(col.no_id, source, role, name)
        self.point_zero = partial(col.point_zero_note, source, role, name)
        self.from_text = from_text
        self.notes: list[str] = []
        self.different: pa.Array | None = None  # as the source has them
        self.codes: list[npt.NDArray[np.int32]] = []  # places in `different`; -1 where there is none
        self.waiting: list[pa.Array] = []

    def add(self, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            self.refuse(column.type.value_type)
            self.codes.append(self._of_dictionary(column))
            return
        self.refuse(column.type)
        self.waiting.append(_hashable(column))
        different = 0 if self.different is None else len(self.different)
        if sum(map(len, self.waiting)) >= max(ENCODED_AT_ONCE, different):
            self._encode_waiting()

    @property
    def nbytes(self) -> int:
        """The memory that the ids so far take."""
        arrays = [*self.codes, *self.waiting, *([] if self.different is None else [self.different])]
        return sum(array.nbytes for array in arrays)

    def taken(self) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """What has come since the last call: the distinct ids as the source has them, and the place of each row's id
        among them, -1 for no id."""
        self._encode_waiting()
        different, codes = self.different, np.concatenate(self.codes)
        assert different is not None
        self.different, self.codes = None, []
        return different, codes

    def finish(self) -> tuple[IdMap, npt.NDArray[np.int32]]:
        """The ids in sorted order, and the row of each; InputError if some are missing."""
        different, codes = self.taken()
        ids = self.as_ids(different)
        if written := col.point_zero(different, self.from_text, pa.types.is_int64(ids.type)):
            self.notes.append(self.point_zero(written))
        known = IdMap.of(ids.drop_null())
        rows = np.append(known.rows(ids), -1).astype(np.int32)  # so that -1 stays -1
        codes = rows[codes]
        if len(missing := np.flatnonzero(codes < 0)):
            raise self.no_id(len(missing), int(missing[0]))
        return known, codes

    def _encode_waiting(self) -> None:
        if self.waiting:
            column = pa.concat_arrays(self.waiting)
            self.waiting.clear()
            self.codes.append(self._encode(column))

    def _encode(self, column: pa.Array) -> npt.NDArray[np.int32]:
        if self.different is None:
            self.different = column.slice(0, 0)
        codes = _places(column, self.different)
        new = codes < 0
        if new.any():
            rest = column.filter(pa.array(new)).dictionary_encode()
            codes[new] = np.asarray(pc.add(rest.indices, len(self.different)).fill_null(-1))
            self.different = pa.concat_arrays([self.different, rest.dictionary])
        return codes

    def _of_dictionary(self, column: pa.DictionaryArray) -> npt.NDArray[np.int32]:
        """Only entries of the dictionary that occur count as ids."""
        places = np.asarray(column.indices.cast(pa.int64()).fill_null(-1))
        occurs = np.zeros(len(column.dictionary) + 1, dtype=bool)
        occurs[places] = True
        occurs[-1] = False
        codes: npt.NDArray[np.int32] = np.full(len(occurs), -1, dtype=np.int32)
        codes[occurs] = self._encode(_hashable(column.dictionary).filter(pa.array(occurs[:-1])))
        return np.take(codes, places)


def _places(column: pa.Array, different: pa.Array) -> npt.NDArray[np.int32]:
    """The place of each id among the distinct ones; -1 if it is not there."""
    if len(different) and not column.null_count and pa.types.is_signed_integer(column.type):
        ids, known = (np.asarray(array).astype(np.int64, copy=False) for array in (column, different))
        low, high = min(int(ids.min()), int(known.min())), max(int(ids.max()), int(known.max()))
        if high - low < DENSE * len(ids):  # then no hashing is needed
            place = np.full(high - low + 1, -1, dtype=np.int32)
            place[known - low] = np.arange(len(known))
            return np.take(place, ids - low)
    return np.array(pc.index_in(column, value_set=different).fill_null(-1))  # a copy, to be written to


def _hashable(column: pa.Array) -> pa.Array:
    """All text in one type, and types that Arrow cannot hash in one that it can."""
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return column.cast(pa.string()) if pa.types.is_null(column.type) else col.plain(column)


class Numbers:
    """A column of values or times on its way to float64 or int64; `error` says why it cannot be."""

    def __init__(self, source: str, role: str, name: str) -> None:
        self.source, self.role, self.name = source, role, name
        self.error: InputError | None = None
        self.parts: list[Column] = []
        self.rows = 0
        self.kinds: Sequence[times.Kind] = times.KINDS  # what times that are text may still be
        self.comma: str | None = None  # the first value that was written with a decimal comma

    def add(self, column: pa.Array) -> None:
        if self.error is not None:
            return
        try:
            part = self._converted(col.plain(column))
        except InputError as error:
            self.error = error
            self.parts.clear()
            return
        self.parts.append(part)
        self.rows += len(column)

    def _converted(self, column: pa.Array) -> pa.Array:
        if self.role != "time":
            found = col.values(self.source, self.name, column, self.rows, self.role)
            self.comma = self.comma or col.decimal_comma(column)
            return found
        seconds, self.kinds = times.times(self.source, self.name, column, self.rows, self.kinds)
        return seconds

    def notes(self) -> list[str]:
        """How the column was read, where it could be read otherwise."""
        if self.comma is not None:
            return [f"{self.source}: {self.role} column '{self.name}' has decimal commas ({shown(self.comma)})."]
        form = times.described(self.kinds) if self.role == "time" else None
        return [f"{self.source}: dates in time column '{self.name}' were read as {form}."] if form else []

    def taken(self) -> pa.Array:
        """What has come since the last call."""
        kinds = {part.type for part in self.parts}
        kind = kinds.pop() if len(kinds) == 1 else pa.float64()  # fractions came late
        whole = pa.concat_arrays([part.cast(kind, safe=False) for part in self.parts])
        self.parts.clear()
        return whole
