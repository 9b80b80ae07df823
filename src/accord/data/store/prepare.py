"""A log of any size -> a store, in bounded memory. Interrupted and run again, it continues and gives the same bytes.

1. read: the source in chunks; within a chunk, an id is its place among the distinct ids of the chunk;
2. merge ids: the sorted ids of all chunks become one list, and every chunk gets the rows of its own ids;
3. group: each chunk is sorted by user;
4. merge rows: users are appended to the store, one range at a time, each with its rows of all chunks, each pair once.

Each step leaves files behind that are complete once a JSON file says so.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data import catalog, read, times
from accord.data import columns as col
from accord.data.columns import Columns
from accord.data.csr import IntArray
from accord.data.databases import Query, database_of
from accord.data.encode import Ids, Numbers, have_none, left_out, refuse_only_one
from accord.data.interactions import IdMap, Interactions
from accord.data.objects import is_object
from accord.data.sorting import lexsort
from accord.data.sources import Opened, open_path
from accord.data.store import sorted_ids
from accord.data.store.arrays import COLUMNS, Appended, Array, add_ids, appending, file_of, ids_of, mapped, read_slice
from accord.data.store.store import HEADER, LOCK, WORK, Header, Store, is_store, remove
from accord.errors import Argument, InputError
from accord.io.files import write_json

MEMORY = 2 * 2**30  # bytes to stay within, roughly
LEAST_MEMORY = 2**24
CHUNK_SHARE, BYTES_A_ROW = 12, 256  # a chunk takes 1/CHUNK_SHARE of the memory, sorting so many bytes per row
RANGES = 2**14  # of users, into which chunks are grouped
LEAST_BLOCK = 2**12  # ids of a sorted file that are in memory at least
ROLES = ("user", "item")
Watch = Callable[[str, int, int | None], None]  # step, done so far, in all


def prepare(
    source: Any,
    out: str | Path,
    *,
    columns: Columns | None = None,
    memory: int = MEMORY,
    overwrite: bool = False,
    watch: Watch | None = None,
    query: str | None = None,
) -> Store:
    """Make a store of a file, of files or a folder of files with the same columns, or of what a query gives."""
    out = Path(out)
    if memory < LEAST_MEMORY:
        raise InputError(f"memory is {memory} bytes; give at least {LEAST_MEMORY // 2**20} MB.")
    source = source if query is None else Query.of(source, query)
    opened = _open(source)
    chosen = col.choose(opened.label, opened.names, columns or Columns(), (), opened.partitions)
    if out.exists() and not out.is_dir():
        raise InputError(Argument("out", out), " is a file; give a folder.")
    if is_store(out):
        if not overwrite:
            raise InputError(
                f"{out} is prepared already; give another ",
                Argument("out"),
                ", or ",
                Argument("overwrite", True),
                " to replace it.",
            )
        remove(out)
    elif out.is_dir() and any(out.iterdir()) and not (out / WORK).is_dir():
        raise InputError(Argument("out", out), " is not empty and not a store; give a new folder.")
    (out / WORK).mkdir(parents=True, exist_ok=True)
    with _locked(out):
        given = {role for role in COLUMNS if columns and getattr(columns, role)}
        name = catalog.name_of(source)
        return _Preparation(opened, name, chosen, given, out, memory, watch or (lambda *_: None)).run()


def _open(source: Any) -> Opened:
    if not isinstance(source, str | Path) or is_object(source) or database_of(source) is not None:
        return read.open_source(source)
    path = Path(source).expanduser()
    if read.is_split_folder(path):
        raise InputError(f"{path} is already split; prepare takes a log: a file, or a folder of files.")
    if is_store(path):
        raise InputError(f"{path} is a store already; give the log that it was made from.")
    return open_path(path, str(path), several=True)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other processes from preparing the same store."""
    import fcntl

    with (out / WORK / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{out} is being prepared by another process; wait for it.") from None
        yield


@dataclass
class _Chunk:
    """What is known about a chunk of the source."""

    rows: int
    whole: dict[str, bool | None]  # whether its ids are integers
    no_id: dict[str, bool]  # whether some rows have no id
    kinds: dict[str, str]  # the types of its numbers
    missing: dict[str, int]  # rows without a number
    errors: dict[str, str]  # why a column cannot be read
    text_times: list[int]  # the types that later times may have, if they are text
    notes: list[str] = field(default_factory=list)  # how its numbers were read


class _Preparation:
    def __init__(
        self, opened: Opened, name: str, chosen: Columns, given: set[str], out: Path, memory: int, watch: Watch
    ) -> None:
        self.name, self.opened, self.chosen, self.given, self.out, self.memory = (
            name,
            opened,
            chosen,
            given,
            out,
            memory,
        )
        self.work, self.watch = out / WORK, watch
        self.source = opened.label
        self.names = {role: name for role in COLUMNS if (name := getattr(chosen, role))}

    def run(self) -> Store:
        self._begin()
        chunks = self._read()
        users, items = (self._merge_ids(role, chunks) for role in ROLES)
        kinds = self._numbers(chunks)
        for number in range(len(chunks)):
            self._group(number, chunks, kinds, users)
        arrays = self._merge_rows(chunks, kinds, users, items)
        arrays |= {name: (kind, size) for role in ROLES for name, (kind, size) in self._ids_of(role)["arrays"].items()}
        called = {role: self.names[role] for role in (*ROLES, *kinds)}
        rows = arrays["item"][1]
        missing = {role: sum(chunk.missing[role] for chunk in chunks) for role in kinds}
        header = Header(self.name, called, arrays, bool(missing.get("value")),
                        self._notes(chunks, kinds, missing, rows))  # fmt: skip
        write_json(self.out / HEADER, header.content())
        shutil.rmtree(self.work)
        return Store.open(self.out)

    def _begin(self) -> None:
        """Continue if the same preparation was interrupted, or start from scratch."""
        files = [[str(file.resolve()), *_state(file)] for file in self.opened.files]
        identity = {"files": files, "columns": asdict(self.chosen), "memory": self.memory}
        if not files:  # a table may have changed since
            identity["begun"] = time.time_ns()
        begun = self.work / "begun.json"
        if begun.exists() and _json(begun) == identity:
            return
        for path in [*self.work.iterdir(), *self.out.glob("*.bin")]:
            if path.name != LOCK:
                path.unlink()
        write_json(begun, identity)

    def _notes(self, chunks: list[_Chunk], kinds: dict[str, str], missing: dict[str, int], rows: int) -> list[str]:
        """What was decided: the same notes as when the log is read into memory."""
        notes = list(self.opened.notes)
        if self.opened.headed:
            notes.append(f"{self.source}: {col.describe(self.chosen, self.opened.names)}")
        notes += self.opened.found
        notes += [note for role in ROLES if (note := self._ids_of(role).get("note"))]
        notes += {note: None for chunk in chunks for note in chunk.notes}  # each once
        for role in COLUMNS[2:]:
            if role in chunks[-1].errors:
                notes.append(left_out(InputError(chunks[-1].errors[role])))
            elif missing.get(role) and role != "label":
                notes.append(have_none(self.source, role, missing[role]))
        return notes + read.merged_note(self.source, sum(chunk.rows for chunk in chunks) - rows, "time" in kinds)

    # --- 1. read

    def _file(self, number: int, what: str) -> Path:
        return self.work / f"{number:05}-{what}"

    def _read(self) -> list[_Chunk]:
        chunks: list[_Chunk] = []
        while self._file(len(chunks), "read.json").exists():
            chunks.append(_Chunk(**_json(self._file(len(chunks), "read.json"))))
        if (self.work / "read.json").exists():
            return chunks
        ids = {role: Ids(self.source, role, self.names[role], self.opened.from_text) for role in ROLES}
        numbers = {role: Numbers(self.source, role, self.names[role]) for role in COLUMNS[2:] if role in self.names}
        done = skip = sum(chunk.rows for chunk in chunks)
        for role, column in numbers.items():
            column.rows = done
            if chunks:
                column.kinds = [times.KINDS[kind] for kind in chunks[-1].text_times]
                column.error = InputError(chunks[-1].errors[role]) if role in chunks[-1].errors else None
        total, rows = self.opened.num_rows(), 0
        for batch in self.opened.batches(list(self.names.values()), list(self.names.values())[:2]):
            if skip or not batch.num_rows:  # a chunk ends where a batch does
                skip -= batch.num_rows
                continue
            for column_of_ids in ids.values():
                column_of_ids.add(batch.column(column_of_ids.name))
            for role, column in numbers.items():
                column.add(batch.column(column.name))
                if column.error is not None and role in self.given:
                    raise column.error
            rows += batch.num_rows
            self.watch("reading rows", done + rows, total)
            if 16 * rows + sum(column.nbytes for column in ids.values()) >= self.memory // CHUNK_SHARE:
                chunks.append(self._write_chunk(len(chunks), rows, ids, numbers))
                done, rows = done + rows, 0
        if rows:
            chunks.append(self._write_chunk(len(chunks), rows, ids, numbers))
        if not chunks:
            raise InputError(f"{self.source} is empty: it has no rows of interactions; give a log that has some.")
        write_json(self.work / "read.json", len(chunks))
        return chunks

    def _write_chunk(self, number: int, rows: int, ids: dict[str, Ids], numbers: dict[str, Numbers]) -> _Chunk:
        chunk = _Chunk(rows, {}, {}, {}, {}, {}, [])
        for role, column_of_ids in ids.items():
            different, codes = column_of_ids.taken()
            codes.tofile(self._file(number, role))
            sorted_ids.write_ids(self._file(number, f"{role}-ids"), different, max(1, len(different)))
            chunk.whole[role] = col.are_whole(different, self.opened.from_text)
            chunk.no_id[role] = bool((codes < 0).any())
        for role, column in numbers.items():
            if column.error is not None:
                chunk.errors[role] = str(column.error)
                continue
            chunk.notes += column.notes()
            array = column.taken().to_numpy(zero_copy_only=False)
            array.tofile(self._file(number, role))
            chunk.kinds[role] = array.dtype.str
            chunk.missing[role] = int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0
            if role == "time":
                chunk.text_times = [times.KINDS.index(kind) for kind in column.kinds]
        write_json(self._file(number, "read.json"), asdict(chunk))
        return chunk

    def _numbers(self, chunks: list[_Chunk]) -> dict[str, str]:
        """The types of value and time, if they can be read: integers, unless there are fractions."""
        roles = [role for role in COLUMNS[2:] if role in self.names and role not in chunks[-1].errors]
        found = {role: {chunk.kinds[role] for chunk in chunks} for role in roles}
        return {role: kinds.pop() if len(kinds) == 1 else "<f8" for role, kinds in found.items()}

    # --- 2. merge ids

    def _ids_of(self, role: str) -> Any:
        return _json(self.work / f"{role}.json")

    def _merge_ids(self, role: str, chunks: list[_Chunk]) -> int:
        """Put the ids of all chunks into the store, and the rows of its codes beside each chunk; the number of ids."""
        if (self.work / f"{role}.json").exists():
            return int(self._ids_of(role)["size"])
        verdicts = {chunk.whole[role] for chunk in chunks}
        whole = True in verdicts and False not in verdicts
        block = max(LEAST_BLOCK, self.memory // CHUNK_SHARE // (64 * len(chunks)))
        sorted_files, no_id = [], list[IntArray]()
        firsts = [0, *accumulate(chunk.rows for chunk in chunks)]
        written: str | None = None
        for number, chunk in enumerate(chunks):
            raw = sorted_ids.read_ids(self._file(number, f"{role}-ids"))
            written = written or col.point_zero(raw, self.opened.from_text, whole)
            ids, place = sorted_ids.place_of(col.to_ids(raw, self.opened.from_text, whole))
            sorted_files.append(self._file(number, f"{role}-run"))
            sorted_ids.write_ids(sorted_files[-1], ids, block)
            place.astype(np.int32).tofile(self._file(number, f"{role}-place"))
            if chunk.no_id[role] or (place < 0).any():
                codes = np.append(place, -1)[np.fromfile(self._file(number, role), np.int32)]
                no_id.append(np.flatnonzero(codes < 0) + firsts[number])
            self._file(number, f"{role}-rows").unlink(missing_ok=True)
            self.watch(f"sorting {role} ids", number + 1, len(chunks))
        if no_id:
            raise col.no_id(self.source, role, self.names[role], sum(map(len, no_id)), int(no_id[0][0]))
        size = 0
        with appending(self.out) as arrays:
            for step in sorted_ids.merged(sorted_files):
                add_ids(arrays, f"{role}_ids", step.ids)
                size += len(step.ids)
                for number, rows in step.rows:
                    with self._file(number, f"{role}-rows").open("ab") as file:
                        rows.astype(np.int32).tofile(file)
                self.watch(f"merging {role} ids", size, None)
            described = arrays.sync()
        if size == 1:
            refuse_only_one(
                self.source, role, self.names[role], ids_of(mapped(self.out, described, self.out), f"{role}_ids")
            )
        if size >= 2**31:
            raise InputError(f"{self.source} has {size:,} {role} ids; at most {2**31 - 1:,} are supported.")
        note = written and col.point_zero_note(self.source, role, self.names[role], written)
        write_json(self.work / f"{role}.json", {"size": size, "arrays": described, "note": note})
        return size

    # --- 3. group

    def _group(self, number: int, chunks: list[_Chunk], kinds: dict[str, str], users: int) -> None:
        """Sort a chunk by user, and note where each range of users begins."""
        if self._file(number, "grouped.json").exists():
            return
        columns: dict[str, Array] = {}
        for role in ROLES:
            row = np.fromfile(self._file(number, f"{role}-rows"), np.int32)
            place = np.fromfile(self._file(number, f"{role}-place"), np.int32)
            columns[role] = row[place][np.fromfile(self._file(number, role), np.int32)]
        order = lexsort([columns["user"]])
        for role, kind in kinds.items():
            columns[role] = np.fromfile(self._file(number, role), chunks[number].kinds[role]).astype(kind)
        for role, column in columns.items():
            column[order].tofile(file_of(self.work, f"{number:05}-grouped-{role}"))
        starts = np.searchsorted(columns["user"][order], self._starts(users).astype(np.int32))
        starts.astype(np.int64).tofile(self._file(number, "starts"))
        write_json(self._file(number, "grouped.json"), {})
        for what in [*columns, *(f"{role}-{kind}" for role in ROLES for kind in ("ids", "run", "place", "rows"))]:
            self._file(number, what).unlink(missing_ok=True)
        self.watch("grouping by user", number + 1, len(chunks))

    @staticmethod
    def _starts(users: int) -> IntArray:
        """The first user of each range, and the end of the last."""
        return np.minimum(np.arange(RANGES + 1) * -(-users // RANGES), users)

    # --- 4. merge rows

    def _merge_rows(self, chunks: list[_Chunk], kinds: dict[str, str], users: int, items: int) -> Any:
        """Append the users of some ranges at a time, as many as sorting has memory for."""
        first_users = self._starts(users)
        starts = np.stack([np.fromfile(self._file(number, "starts"), np.int64) for number in range(len(chunks))])
        rows_of = np.diff(starts.sum(0))
        types = {"user": "<i4", "item": "<i4", **kinds}
        state = self.work / "rows.json"
        begun: Any = _json(state) if state.exists() else {"range": 0, "arrays": {}}
        at = int(begun["range"])
        all_items = IdMap.range(items)
        with appending(self.out, {name: (kind, size) for name, (kind, size) in begun["arrays"].items()}) as arrays:
            if not at:
                arrays.add("ptr", np.zeros(1, np.int64))
            while at < RANGES:
                end = at + max(1, int(np.searchsorted(rows_of[at:].cumsum(), self.memory // BYTES_A_ROW, side="right")))
                slices = [(number, own[at], own[end]) for number, own in enumerate(starts) if own[at] < own[end]]
                first, last = first_users[at], first_users[end]
                if last > first:
                    self._append(arrays, slices, types, int(first), int(last), all_items)
                at = end
                write_json(state, {"range": at, "arrays": arrays.sync()})
                self.watch("merging rows", int(rows_of[:at].sum()), int(rows_of.sum()))
            return arrays.sync()

    def _append(
        self, arrays: Appended, slices: list[Any], types: dict[str, str], first: int, last: int, items: IdMap
    ) -> None:
        parts = {
            name: np.concatenate(
                [read_slice(self.work, f"{number:05}-grouped-{name}", kind, *place) for number, *place in slices]
            )
            for name, kind in types.items()
        }
        parts["user"] -= first
        rows = Interactions(pa.table(parts), (IdMap.range(last - first), items)).merged(ordered=True)
        users = rows.column("user")
        before = arrays.written.get("item", ("", 0))[1]
        for name in types:
            arrays.add(name, rows.column(name) + np.int32(first) if name == "user" else rows.column(name))
        arrays.add("ptr", before + np.bincount(users, minlength=last - first).cumsum())


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{path} is damaged; remove the folder {path.parent}, and prepare the log again.") from None


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
