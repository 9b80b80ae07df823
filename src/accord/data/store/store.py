"""A prepared store: its interactions, read in place, and the splits made from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data import split as splitting
from accord.data.columns import COLUMNS
from accord.data.csr import PAIRS_AT_ONCE
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.rules import CleanRule
from accord.data.split import Ratios
from accord.data.store.arrays import Array, ArrayWriter, Described, damaged, ids_of, interactions_of, mapped
from accord.errors import ColumnArgument, InputError
from accord.io.files import UNFINISHED, write_json

HEADER, WORK, SPLITS = "store.json", f".preparing{UNFINISHED}", "splits"
FORMAT, VERSION = "accord store", 1
PARTS = ("train", "valid", "test")


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
