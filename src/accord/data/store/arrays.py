"""Named arrays as plain binary files in a folder: appended to while they are made, mapped into memory afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data.csr import Csr
from accord.data.interactions import IdMap, Interactions
from accord.errors import Argument, InputError

Array = npt.NDArray[Any]
Described = dict[str, tuple[str, int]]  # type and length of each array
COLUMNS = ("user", "item", "value", "time", "weight", "label")


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


class Appended:
    """Arrays that are appended to. What is not known to be complete is cut off and written again."""

    def __init__(self, folder: Path, kept: Mapping[str, tuple[str, int]] | None = None) -> None:
        """`kept`: the arrays that are already there, as `sync` described them."""
        self.folder = folder
        self.written: Described = {name: (kind, size) for name, (kind, size) in (kept or {}).items()}
        self.files: dict[str, BinaryIO] = {}
        for name in self.written:
            self._open(name)

    def _open(self, name: str) -> None:
        kind, size = self.written[name]
        path = file_of(self.folder, name)
        path.touch()
        os.truncate(path, size * np.dtype(kind).itemsize)
        self.files[name] = path.open("ab")

    def add(self, name: str, array: Array) -> None:
        kind, size = self.written.setdefault(name, (array.dtype.str, 0))
        assert kind == array.dtype.str, (name, kind, array.dtype)
        if name not in self.files:
            self._open(name)
        array.tofile(self.files[name])
        self.written[name] = kind, size + len(array)

    def sync(self) -> Described:
        """Flush everything to disk, and describe it."""
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
        return dict(self.written)

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        self.files.clear()


@contextmanager
def appending(folder: Path, kept: Mapping[str, tuple[str, int]] | None = None) -> Iterator[Appended]:
    arrays = Appended(folder, kept)
    try:
        yield arrays
    finally:
        arrays.close()


def mapped(folder: Path, described: Mapping[str, tuple[str, int]], whole: Path) -> dict[str, Array]:
    """Arrays mapped from their files. `whole` is what to prepare again if one is damaged."""
    arrays: dict[str, Array] = {}
    for name, (kind, size) in described.items():
        path, dtype = file_of(folder, name), np.dtype(kind)
        found = path.stat().st_size if path.is_file() else None
        if found != size * dtype.itemsize:
            problem = "is missing" if found is None else f"has {found} bytes, not {size * dtype.itemsize}"
            raise InputError(
                f"{whole} is damaged ({path.name} {problem}); prepare it again with ", Argument("overwrite", True), "."
            )
        # copy on write: torch wants writable arrays, though nothing writes to them
        arrays[name] = np.asarray(np.memmap(path, dtype, "c", shape=(size,))) if size else np.empty(0, dtype)
    return arrays


def read_slice(folder: Path, name: str, dtype: npt.DTypeLike, start: int, stop: int) -> Array:
    """A slice of an array, in memory."""
    kind = np.dtype(dtype)
    array: Array = np.fromfile(file_of(folder, name), kind, stop - start, offset=start * kind.itemsize)
    return array


def add_ids(arrays: Appended, name: str, ids: pa.Array) -> None:
    """Append ids: integers as they are, text end to end, with the end of each."""
    if ids.type == pa.int64():
        arrays.add(name, np.asarray(ids))
        return
    _, length = arrays.written.get(f"{name}-text", ("", 0))
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    if length + ends[-1] - ends[0] >= 2**31:
        raise InputError(f"the {name.split('_')[0]} ids are more than 2 GiB of text; use shorter ids, or integers.")
    if not length and f"{name}-ends" not in arrays.written:
        arrays.add(f"{name}-ends", np.zeros(1, np.int32))
    arrays.add(f"{name}-ends", (ends[1:] - ends[0] + length).astype(np.int32))
    if ends[-1] > ends[0]:
        arrays.add(f"{name}-text", np.frombuffer(text, np.uint8)[ends[0] : ends[-1]])


def ids_of(arrays: Mapping[str, Array], name: str) -> IdMap:
    if name in arrays:
        return IdMap(pa.array(arrays[name]))
    ends, text = (pa.py_buffer(arrays[f"{name}-{part}"]) for part in ("ends", "text"))
    return IdMap(pa.Array.from_buffers(pa.string(), len(arrays[f"{name}-ends"]) - 1, [None, ends, text]))


def interactions_of(
    arrays: Mapping[str, Array], ids: tuple[IdMap, IdMap], called: Mapping[str, str], missing: bool
) -> Interactions:
    """The rows of arrays, sorted by user and item, in their files. `missing`: whether some have no value."""
    columns, fields = [], []
    for name in COLUMNS:
        if name in arrays:
            column = pa.array(arrays[name], from_pandas=name == "label" or (name == "value" and missing))
            columns.append(column)
            fields.append(
                pa.field(name, column.type, metadata={"source": called[name]} if name in COLUMNS[2:] else None)
            )
    rows = Interactions(pa.table(columns, schema=pa.schema(fields)), ids)
    rows.stored = Csr(arrays["ptr"], arrays["item"], len(ids[1]), arrays["user"])
    return rows
