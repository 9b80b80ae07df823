"""A prepared store: its interactions, read in place, and the splits made from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import split as splitting
from accord.data.columns import COLUMNS
from accord.data.csr import PAIRS_AT_ONCE, Csr
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.rules import CleanRule
from accord.data.split import Ratios
from accord.errors import Argument, ColumnArgument, InputError
from accord.io.files import UNFINISHED, write_json

HEADER, WORK, SPLITS = "store.json", f".preparing{UNFINISHED}", "splits"
FORMAT, VERSION = "accord store", 1
PARTS = ("train", "valid", "test")

Array = npt.NDArray[Any]
Described = dict[str, tuple[str, int]]  # type and length of each array


def damaged(store: Path, why: str) -> InputError:
    return InputError(f"{store} is damaged ({why}); prepare it again with ", Argument("overwrite", True), ".")


def is_store(path: Path) -> bool:
    return (path / HEADER).is_file()


def is_unfinished(path: Path) -> bool:
    return (path / WORK).is_dir() and not is_store(path)


def remove(path: Path) -> None:
    """Delete a store, and nothing else that is in its folder."""
    (path / HEADER).unlink(missing_ok=True)  # first: what is left is not a store
    for folder in (WORK, SPLITS):
        shutil.rmtree(path / folder, ignore_errors=True)
    for file in path.glob("*.bin"):
        file.unlink()


class ArrayWriter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: Described = {}
        self._files: dict[str, BinaryIO] = {}

    def add(self, name: str, array: Array) -> None:
        kind, size = self.written.setdefault(name, (array.dtype.str, 0))
        assert kind == array.dtype.str, (name, kind, array.dtype)
        if name not in self._files:
            self._files[name] = (self.folder / f"{name}.bin").open("wb")
        array.tofile(self._files[name])
        self.written[name] = kind, size + len(array)

    def add_ids(self, name: str, ids: pa.Array) -> None:
        """Ids: integers as they are, text end to end, with the end of each."""
        if ids.type == pa.int64():
            self.add(name, np.asarray(ids))
            return
        _, offsets, text = ids.buffers()
        ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
        self.add(f"{name}-ends", ends - ends[0])
        self.add(f"{name}-text", np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]])

    def sync(self) -> Described:
        """Flush everything to disk, and describe it."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        return dict(self.written)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def mapped(folder: Path, described: Mapping[str, tuple[str, int]], store: Path) -> dict[str, Array]:
    """Arrays mapped from their files. `store` is what to prepare again if one is damaged."""
    arrays: dict[str, Array] = {}
    for name, (kind, size) in described.items():
        path, dtype = folder / f"{name}.bin", np.dtype(kind)
        length = path.stat().st_size if path.is_file() else None
        if length != size * dtype.itemsize:
            problem = "is missing" if length is None else f"has {length} bytes, not {size * dtype.itemsize}"
            raise damaged(store, f"{path.name} {problem}")
        # copy on write: torch wants writable arrays, though nothing writes to them
        arrays[name] = np.asarray(np.memmap(path, dtype, "c", shape=(size,))) if size else np.empty(0, dtype)
    return arrays


def ids_of(arrays: Mapping[str, Array], name: str) -> IdMap:
    if name in arrays:
        return IdMap(pa.array(arrays[name]))
    ends, text = (pa.py_buffer(arrays[f"{name}-{part}"]) for part in ("ends", "text"))
    return IdMap(pa.Array.from_buffers(pa.string(), len(arrays[f"{name}-ends"]) - 1, [None, ends, text]))


def interactions_of(
    arrays: Mapping[str, Array], ids: tuple[IdMap, IdMap], source_names: Mapping[str, str], missing: bool
) -> Interactions:
    """The rows of arrays, sorted by user and item, in their files. `missing`: whether some have no value."""
    columns = {name: pa.array(arrays[name]) for name in ("user", "item")}
    fields = [pa.field(name, pa.int32()) for name in columns]
    for name in (name for name in COLUMNS if name in arrays):
        columns[name] = pa.array(arrays[name], from_pandas=name == "label" or (name == "value" and missing))
        fields.append(pa.field(name, columns[name].type, metadata={"source": source_names[name]}))
    stored = Csr(arrays["ptr"], arrays["item"], len(ids[1]), arrays["user"])
    return Interactions(pa.table(list(columns.values()), schema=pa.schema(fields)), ids, stored)


@dataclass(frozen=True)
class Header:
    """What store.json says; it is written last."""

    name: str
    called: dict[str, str]  # what the source called each column
    arrays: Described
    missing: bool  # whether some rows have no value
    notes: list[str]

    def content(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **self.__dict__}

    @classmethod
    def read(cls, folder: Path) -> Header:
        path = folder / HEADER
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content.pop("version") if content.pop("format") == FORMAT else None
            if version == VERSION:
                header = cls(**content)
                header.arrays.update({name: (str(kind), int(size)) for name, (kind, size) in header.arrays.items()})
                return header
        except (KeyError, TypeError, ValueError, AttributeError):
            version = None
        if version is None:
            raise InputError(f"{path} is not the header of a store; prepare the log again.")
        raise InputError(
            f"{folder} is a store of version {version}, and this Accord reads version {VERSION}; prepare it again."
        )


@dataclass(frozen=True)
class Store:
    """Interactions sorted by user and item, each pair once, in files."""

    folder: Path
    header: Header
    arrays: dict[str, Array]
    interactions: Interactions

    @classmethod
    def open(cls, folder: Path) -> Store:
        if is_unfinished(folder):
            raise InputError(f"{folder} is not finished; run `accord data prepare` again.")
        header = Header.read(folder)
        arrays = mapped(folder, header.arrays, folder)
        try:
            ids = ids_of(arrays, "user_ids"), ids_of(arrays, "item_ids")
            rows = interactions_of(arrays, ids, header.called, header.missing)
        except KeyError as error:
            raise damaged(folder, f"it has no {error}") from None
        return cls(folder, header, arrays, rows)

    @property
    def nbytes(self) -> int:
        return sum(np.dtype(kind).itemsize * size for kind, size in self.header.arrays.values())

    def table(self) -> pa.Table:
        """The rows under the names that the source has for its columns."""
        table = self.interactions.table
        return table.rename_columns([self.header.called[name] for name in table.column_names])

    def dataset(
        self, split: str, ratios: Sequence[float], rule: CleanRule | None, seed: int, name: str | None = None
    ) -> Dataset:
        """Train, valid and test: the same as those of the log read into memory."""
        names = {word for role, name in self.header.called.items() if role in COLUMNS for word in (role, name)}
        if missing := [word for word in (rule.names if rule else ()) if word not in names]:
            raise InputError(
                f"{self.folder} has no column '{missing[0]}', which the clean rule names; prepare it with that as ",
                *(ColumnArgument("value"), "."),
            )
        label = name or self.header.name
        return splitting.split(self.interactions, split, ratios, rule, seed, label, self.header.notes, cut=self._cut)

    def _cut(self, rows: Interactions, kind: str, ratios: Ratios, seed: int) -> list[Interactions]:
        """The parts of a split, made once and written to the store."""
        shares = "" if kind == "leave-last-out" else "".join(f"-{share:g}" for share in ratios)
        folder = self.folder / SPLITS / f"{re.sub('[^a-z0-9-]+', '_', kind.lower())}{shares}-seed-{seed}"
        if not (folder / HEADER).is_file():
            self._make_parts(folder, rows, splitting.assigned(rows, kind, ratios, seed))
        try:
            parts = json.loads((folder / HEADER).read_text(encoding="utf-8"))
            return [self._part(folder / part, parts[part]) for part in PARTS]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{folder} is damaged; remove it, and it will be made again.") from None

    def _part(self, folder: Path, described: Described) -> Interactions:
        ids: tuple[IdMap, IdMap] = self.interactions.user_ids, self.interactions.item_ids
        return interactions_of(mapped(folder, described, folder.parent), ids, self.header.called, self.header.missing)

    def _make_parts(self, folder: Path, rows: Interactions, assigned: splitting.Parts) -> None:
        folder.parent.mkdir(exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
        try:
            described = {}
            for wanted, part in enumerate(PARTS):
                (unfinished / part).mkdir()
                counts = np.zeros(len(rows.user_ids) + 1, dtype=np.int64)
                with closing(ArrayWriter(unfinished / part)) as arrays:
                    for start in range(0, len(rows), PAIRS_AT_ONCE):
                        block = slice(start, start + PAIRS_AT_ONCE)
                        keep = assigned[block] == wanted
                        for name in rows.names:
                            arrays.add(name, self.arrays[name][block][keep])
                        counts[1:] += np.bincount(self.arrays["user"][block][keep], minlength=len(counts) - 1)
                    arrays.add("ptr", counts.cumsum())
                    described[part] = arrays.sync()
            write_json(unfinished / HEADER, described)
            try:
                os.rename(unfinished, folder)  # noqa: PTH104  (a folder, onto nothing)
            except OSError:
                if not (folder / HEADER).is_file():  # another process may have made the same meanwhile
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
