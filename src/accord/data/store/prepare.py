"""A log of any size -> a store, in bounded memory.

1. read: the source in chunks, which go to files; an id is replaced by its place among the distinct ids so far;
2. partition: users are divided into ranges that memory has room for, and each chunk is appended to the files of these;
3. sort: the rows of each range are sorted by user and item, merged to one row a pair, and appended to the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import catalog, read
from accord.data import columns as col
from accord.data.columns import Columns
from accord.data.csr import IntArray
from accord.data.databases import Query, database_of
from accord.data.encode import Codes, Encoder
from accord.data.interactions import IdMap, Interactions
from accord.data.objects import is_object
from accord.data.sorting import argsort
from accord.data.sources import Opened, open_source
from accord.data.store.store import HEADER, WORK, ArrayWriter, Header, Store, is_store, remove
from accord.errors import Argument, InputError
from accord.io.files import only_writer, write_json

MEMORY = 2 * 2**30  # bytes to stay within, roughly
LEAST_MEMORY = 2**24
BYTES_A_ROW = 256  # of memory, to sort a row
OnProgress = Callable[[str, int, int | None], None]  # step, done so far, in all


def prepare(
    source: Any,
    out: str | Path,
    *,
    columns: Columns | None = None,
    memory: int = MEMORY,
    overwrite: bool = False,
    on_progress: OnProgress = lambda *_: None,
    query: str | None = None,
) -> Store:
    """Make a store of a file, of files or a folder of files with the same columns, or of what a query gives."""
    out = Path(out)
    if memory < LEAST_MEMORY:
        raise InputError(f"memory is {memory} bytes; give at least {LEAST_MEMORY // 2**20} MB.")
    source = source if query is None else Query.of(source, query)
    opened = _open(source)
    if out.exists() and not out.is_dir():
        raise InputError(Argument("out", out), " is a file; give a folder.")
    if is_store(out) and not overwrite:
        other, replace = Argument("out"), Argument("overwrite", True)
        raise InputError(f"{out} is prepared already; give another ", other, ", or ", replace, " to replace it.")
    if out.is_dir() and any(out.iterdir()) and not is_store(out) and not (out / WORK).is_dir():
        raise InputError(Argument("out", out), " is not empty and not a store; give a new folder.")
    given = columns or Columns()
    chosen = col.choose(opened.label, opened.names, given, (), opened.partitions, opened.timestamps)
    with only_writer(out):
        remove(out)  # also what an interrupted preparation has left
        try:
            (out / WORK).mkdir()
            header = _Preparation(opened, chosen, given, out, memory, on_progress).run(catalog.name_of(source))
            write_json(out / HEADER, header.content())
        except BaseException:
            remove(out)
            raise
        shutil.rmtree(out / WORK)
    return Store.open(out)


def _open(source: Any) -> Opened:
    if not isinstance(source, str | Path) or is_object(source) or database_of(source) is not None:
        return open_source(source)
    path = Path(source).expanduser()
    if read.is_split_folder(path):
        raise InputError(f"{path} is already split; prepare takes a log: a file, or a folder of files.")
    if is_store(path):
        raise InputError(f"{path} is a store already; give the log that it was made from.")
    return open_source(source)


class _Preparation:
    def __init__(
        self, opened: Opened, chosen: Columns, given: Columns, out: Path, memory: int, on_progress: OnProgress
    ) -> None:
        self.opened, self.chosen, self.out, self.on_progress = opened, chosen, out, on_progress
        self.names, self.rows_at_once = chosen.names(), memory // BYTES_A_ROW
        guessed = self.names.keys() - given.names().keys()
        self.encoder = Encoder(opened.label, chosen, opened.from_text, guessed)
        self.chunks = 0

    def run(self, name: str) -> Header:
        self._read()
        self.encoder.refuse_empty()
        types: dict[str, np.dtype[Any]] = {"user": np.dtype("<i4"), "item": np.dtype("<i4")}
        for role in self.encoder.numbers:
            kinds = {self._chunk(chunk, role).dtype for chunk in range(self.chunks)}
            types[role] = kinds.pop() if len(kinds) == 1 else np.dtype("<f8")  # fractions came late
        maps, row_of = dict[str, IdMap](), dict[str, Codes]()
        for column in self.encoder.ids:
            maps[column.role], row_of[column.role] = column.finish()
        counts = self._count_users(maps, row_of)
        with closing(ArrayWriter(self.out)) as arrays:
            for role, ids in maps.items():
                arrays.add_ids(f"{role}_ids", ids.ids)
            arrays.add("ptr", np.zeros(1, np.int64))
            bounds = self._bounds(counts)
            for chunk in range(self.chunks):
                self._partition(chunk, row_of, types, bounds)
            for place, (first, last) in enumerate(pairwise(bounds)):
                self._append(arrays, place, types, first, last, maps["item"])
                self.on_progress("sorting rows", int(counts[:last].sum()), self.encoder.rows)
            described = arrays.sync()
        repeated = self.encoder.rows - described["item"][1]
        notes = [*read.opening_notes(self.opened, self.chosen), *self.opened.late_notes, *self.encoder.notes()]
        notes += read.merged_note(self.opened.label, repeated, "time" in types)
        has_gaps = any(number.missing for role, number in self.encoder.numbers.items() if role == "value")
        return Header(name, {role: self.names[role] for role in types}, described, has_gaps, notes)

    def _file(self, number: int, role: str, step: str = "chunk") -> Path:
        return self.out / WORK / f"{step}-{number}-{role}.npy"

    def _chunk(self, number: int, role: str) -> npt.NDArray[Any]:
        """A column of a chunk, in its file; ids are codes."""
        column: npt.NDArray[Any] = np.lib.format.open_memmap(self._file(number, role), mode="r")
        return column

    def _read(self) -> None:
        waiting, names = 0, self.names
        for batch in self.opened.batches(list(names.values()), [names["user"], names["item"]]):
            self.encoder.add(batch)
            waiting += batch.num_rows
            self.on_progress("reading rows", self.encoder.rows, self.opened.num_rows)
            if waiting >= self.rows_at_once:
                self._write_chunk()
                waiting = 0
        if waiting:
            self._write_chunk()

    def _write_chunk(self) -> None:
        for ids in self.encoder.ids:
            np.save(self._file(self.chunks, ids.role), ids.pop())
        for role, column in self.encoder.numbers.items():
            np.save(self._file(self.chunks, role), column.pop().to_numpy(zero_copy_only=False))
        self.chunks += 1

    def _count_users(self, maps: Mapping[str, IdMap], row_of: Mapping[str, Codes]) -> IntArray:
        """The rows of each user; InputError where rows have no id."""
        counts = np.zeros(len(maps["user"]) + 1, dtype=np.int64)
        for column in self.encoder.ids:
            rows, missing = 0, list[IntArray]()
            for number in range(self.chunks):
                codes = row_of[column.role][self._chunk(number, column.role)]
                missing.append(np.flatnonzero(codes < 0) + rows)
                rows += len(codes)
                if column.role == "user":
                    counts += np.bincount(codes + 1, minlength=len(counts))  # the first are those without an id
            if len(without := np.concatenate(missing)):
                raise column.no_id(len(without), int(without[0]))
            column.refuse_only_one(maps[column.role])
        return counts[1:]

    def _bounds(self, counts: IntArray) -> list[int]:
        """Ranges of users, each with as many rows as sorting has memory for: where each begins, and the end."""
        ends, bounds = counts.cumsum(), [0]
        while bounds[-1] < len(counts):
            done = ends[bounds[-1] - 1] if bounds[-1] else 0
            end = int(np.searchsorted(ends, done + self.rows_at_once, side="right"))
            bounds.append(max(end, bounds[-1] + 1))
        return bounds

    def _partition(
        self, number: int, row_of: Mapping[str, Codes], types: Mapping[str, np.dtype[Any]], bounds: list[int]
    ) -> None:
        users = row_of["user"][self._chunk(number, "user")]
        order = argsort(users)
        starts = np.searchsorted(users[order], np.array(bounds, dtype=np.int32))
        for role, kind in types.items():
            column = self._chunk(number, role)
            column = (row_of[role][column] if role in row_of else column.astype(kind))[order]
            self._file(number, role).unlink()
            for place, (start, end) in enumerate(pairwise(starts)):
                if end > start:
                    with self._file(place, role, "range").open("ab") as file:
                        column[start:end].tofile(file)
        self.on_progress("partitioning rows", number + 1, self.chunks)

    def _append(
        self, arrays: ArrayWriter, number: int, types: Mapping[str, np.dtype[Any]], first: int, last: int, items: IdMap
    ) -> None:
        """Sort the rows of a range of users, and append them to the store."""
        columns: dict[str, npt.NDArray[Any]] = {}
        for role, kind in types.items():
            path = self._file(number, role, "range")
            columns[role] = np.fromfile(path, kind)
            path.unlink()
        columns["user"] -= first
        rows = Interactions(pa.table(columns), (IdMap.range(last - first), items)).merged(ordered=True)
        before = arrays.written.get("item", ("", 0))[1]
        for role in types:
            arrays.add(role, rows.column(role) + np.int32(first) if role == "user" else rows.column(role))
        arrays.add("ptr", before + np.bincount(rows.column("user"), minlength=last - first).cumsum())
