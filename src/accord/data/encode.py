"""Batches of columns -> Interactions. Ids become row numbers batch by batch, so a log is never in memory as it is."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import columns as col
from accord.data import times
from accord.data.columns import Column, ColumnError, Columns
from accord.data.interactions import IdMap, Interactions
from accord.errors import ColumnArgument, InputError, shown

ENCODED_AT_ONCE = 2**20  # ids, or as many as there are distinct ones: all of those are hashed again each time

A_DAY = 86_400  # seconds
Codes = npt.NDArray[np.int32]


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
    `several`, one user or one item alone is an error."""
    encoder, source_names = Encoder(source, chosen, from_text, guessed), dict[str, Any]()
    for batch in batches:
        encoder.add(batch)
        for role, number in encoder.numbers.items():
            source_names.setdefault(role, (batch.field(number.name).metadata or {}).get(b"source", number.name))
    encoder.refuse_empty()
    arrays, maps, fields = list[Any](), [], []
    for id_column in encoder.ids:
        codes = id_column.pop()
        id_map, row_of = id_column.finish()
        rows = row_of[codes]
        del codes
        if len(missing := np.flatnonzero(rows < 0)):
            raise id_column.no_id(len(missing), int(missing[0]))
        if several:
            id_column.refuse_only_one(id_map)
        arrays.append(pa.array(rows))
        maps.append(id_map)
        fields.append(pa.field(id_column.role, pa.int32()))
    if from_text:
        _refuse_header(source, chosen, maps, arrays)
    for role, number in encoder.numbers.items():
        arrays.append(number.pop())
        fields.append(pa.field(role, arrays[-1].type, metadata={"source": source_names[role]}))
    return Interactions(pa.table(arrays, schema=pa.schema(fields)), (maps[0], maps[1])), encoder.notes()


def _refuse_header(source: str, chosen: Columns, maps: Sequence[IdMap], rows: Sequence[pa.Array]) -> None:
    """A header line among the rows, as in files that were put one after the other, would be a user and an item."""
    user, item = (ids.rows([name])[0] for ids, name in zip(maps, (chosen.user, chosen.item), strict=True))
    if user < 0 or item < 0:
        return
    repeated = np.flatnonzero((np.asarray(rows[0]) == user) & (np.asarray(rows[1]) == item))
    if len(repeated):
        raise InputError(f"{source}: row {repeated[0] + 1} is the header line again; remove it.")


class Encoder:
    """The chosen columns of a log, converted batch by batch; without those that were `guessed` and cannot be read."""

    def __init__(self, source: str, chosen: Columns, from_text: bool, guessed: Collection[str]) -> None:
        names = chosen.names()
        self.source, self.guessed, self.rows = source, guessed, 0
        self.ids = [IdColumn(source, role, names[role], from_text) for role in ("user", "item")]
        self.numbers = {role: NumberColumn(source, role, names[role]) for role in col.COLUMNS if role in names}
        self._left_out: list[str] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        for column in self.ids:
            column.add(batch.column(column.name))
        for role, number in [*self.numbers.items()]:
            try:
                number.add(batch.column(number.name))
            except ColumnError as error:
                if role not in self.guessed:
                    raise
                self._left_out.append(error.left_out())
                del self.numbers[role]

    def refuse_empty(self) -> None:
        if not self.rows:
            raise InputError(f"{self.source} is empty: it has no rows of interactions; give a log that has some.")

    def notes(self) -> list[str]:
        of_numbers = [note for number in self.numbers.values() for note in number.notes()]
        return [*(note for ids in self.ids for note in ids.notes), *self._left_out, *of_numbers]


class IdColumn:
    """A column of ids on its way to row numbers. Distinct ids are numbered as they come, and sorted at the end."""

    def __init__(self, source: str, role: str, name: str, from_text: bool) -> None:
        self.source, self.role, self.name, self.from_text = source, role, name, from_text
        self.notes: list[str] = []
        self.distinct: Any = None  # an Arrow array, as the source has them
        self._codes: list[Codes] = []  # places in `distinct`; -1 where there is no id
        self._waiting: list[pa.Array] = []

    def add(self, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            column = col.decoded(column.dictionary).take(column.indices)
        column = col.decoded(column)
        col.refuse_ids(self.source, self.role, self.name, column.type)
        self._waiting.append(_hashable(column))
        distinct = 0 if self.distinct is None else len(self.distinct)
        if sum(map(len, self._waiting)) >= max(ENCODED_AT_ONCE, distinct):
            self._encode_waiting()

    def pop(self) -> Codes:
        """The codes of the rows that have come since the last call."""
        self._encode_waiting()
        codes, self._codes = np.concatenate(self._codes), []
        return codes

    def finish(self) -> tuple[IdMap, Codes]:
        """The ids in sorted order, and the row of each code; the last is -1, so that no id stays -1."""
        ids = col.ids(self.source, self.role, self.name, self.distinct, self.from_text)
        if self.from_text and pa.types.is_int64(ids.type):
            written = self.distinct.filter(pc.match_substring_regex(self.distinct, col.POINT_ZERO).fill_null(False))
            like = f"{self.source}: {self.role} ids like '{written[0]}'" if len(written) else ""
            as_read = "were read as whole numbers: 12.0 is the same as 12."
            self.notes = [f"{like} in column '{self.name}' {as_read}"] if like else []
        id_map = IdMap.of(ids.drop_null())
        return id_map, np.append(id_map.rows(ids), -1).astype(np.int32)

    def refuse_only_one(self, ids: IdMap) -> None:
        if len(ids) == 1:
            only = f"{self.source} has only one {self.role} ({shown(ids.ids[0].as_py())}) in column '{self.name}'"
            raise InputError(f"{only}; at least two are needed: check ", ColumnArgument(self.role), ".")

    def no_id(self, count: int, first: int) -> InputError:
        return col.no_id(self.source, self.role, self.name, count, first)

    def _encode_waiting(self) -> None:
        if self._waiting:
            column = pa.concat_arrays(self._waiting)
            self._waiting.clear()
            self._codes.append(self._encode(column))

    def _encode(self, column: pa.Array) -> Codes:
        if self.distinct is None:
            self.distinct = column.slice(0, 0)
        codes: Codes = np.array(pc.index_in(column, value_set=self.distinct).fill_null(-1))  # a copy, to be written to
        new = codes < 0
        if new.any():
            rest = column.filter(pa.array(new)).dictionary_encode()
            codes[new] = np.asarray(pc.add(rest.indices, len(self.distinct)).fill_null(-1))
            self.distinct = pa.concat_arrays([self.distinct, rest.dictionary])
        return codes


def _hashable(column: pa.Array) -> pa.Array:
    """Types that Arrow cannot hash in one that it can."""
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


class NumberColumn:
    """A column of numbers or times on its way to float64 or int64."""

    def __init__(self, source: str, role: str, name: str) -> None:
        self.source, self.role, self.name, self.missing = source, role, name, 0
        self._parts: list[Column] = []
        self._rows = 0
        self._time_kinds: Sequence[times.Kind] = times.KINDS  # what times that are text may still be
        self._units: set[int] = set()  # of numbers since 1970
        self._latest = -math.inf

    def add(self, column: pa.Array) -> None:
        """ColumnError where it cannot be read."""
        column = col.decoded(column)
        if col.COLUMNS[self.role].is_time:
            part, self._time_kinds = times.times(self.source, self.name, column, self._rows, self._time_kinds)
            self._units |= times.units(part)
            self._latest = max(self._latest, pc.max(part).as_py())
            if len(self._units) > 1 and -1 not in self._units:
                raise ColumnError(
                    f"{self.source}: time column '{self.name}' mixes seconds and milliseconds, or other units"
                )
        else:
            part = col.values(self.source, self.name, column, self._rows, self.role)
        self._parts.append(part)
        self._rows += len(column)
        self.missing += part.null_count

    def notes(self) -> list[str]:
        """How the column was read, where it could be read otherwise, and rows without a number."""
        notes, form = [], times.described(self._time_kinds) if col.COLUMNS[self.role].is_time else None
        if form is not None:
            notes.append(f"{self.source}: dates in time column '{self.name}' were read as {form}.")
        if self._units and -1 not in self._units and self._latest / 1000 ** max(self._units) > time.time() + A_DAY:
            notes.append(
                f"{self.source}: time column '{self.name}' has times in the future, up to {self._latest:.0f}; correct "
                "them, because the split and what counts as recent depend on them."
            )
        if self.missing and self.role != "label":  # most rows may be without a label
            notes.append(
                f"{self.source}: {self.missing} rows have no {self.role}; a clean rule does not count them as real."
            )
        return notes

    def pop(self) -> pa.Array:
        """The numbers that have come since the last call."""
        kinds = {part.type for part in self._parts}
        kind = kinds.pop() if len(kinds) == 1 else pa.float64()  # fractions came late
        numbers = pa.concat_arrays([part.cast(kind, safe=False) for part in self._parts])
        self._parts.clear()
        return numbers
