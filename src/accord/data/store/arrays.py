"""Named arrays as binary files in a folder: appended to while they are made, mapped into memory afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data.columns import COLUMNS
from accord.data.csr import Csr
from accord.data.interactions import IdMap, Interactions
from accord.errors import Argument, InputError

Array = npt.NDArray[Any]
Described = dict[str, tuple[str, int]]  # type and length of each array


def damaged(store: Path, why: str) -> InputError:
    return InputError(f"{store} is damaged ({why}); prepare it again with ", Argument("overwrite", True), ".")


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
