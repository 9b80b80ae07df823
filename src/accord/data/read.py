"""Files, folders and frames -> Interactions; the paper's split folders -> Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data import columns as col
from accord.data import split as splitting
from accord.data.columns import Columns
from accord.data.databases import Query, database_of, without_password
from accord.data.encode import encoded
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.objects import Fetched, is_object
from accord.data.sources import TEXT_SUFFIXES, WELL_KNOWN, Opened, frame, matrix, open_path, open_paths
from accord.data.store import store as stores
from accord.data.text import Layout
from accord.errors import InputError

PARTS = ("train.rating", "valid.rating", "valid.noisy", "test.negative", "test.noisy")


def open_store(path: Path) -> stores.Store | None:
    """The store in a folder; None if it is not one."""
    return stores.Store.open(path) if stores.is_store(path) or stores.is_unfinished(path) else None


def whole_table(source: Any) -> tuple[pa.Table, bool]:
    """Every column of a file or frame, and whether it was read from text."""
    opened = open_source(source)
    col.only_once(opened.label, opened.names)
    return opened.read(opened.names), opened.from_text


def read_table(
    source: Any,
    columns: Columns | None = None,
    rule_names: Sequence[str] = (),
    merge: bool = True,
    ordered: bool = False,
) -> tuple[Interactions, list[str]]:
    """Interactions of a file, parquet folder, frame or sparse matrix, one row per pair, and notes on what was decided.

    `rule_names` are the columns that a clean rule names: one that is not numeric is an error then, not left out.
    Without `merge` all rows stay, repeated pairs too, and one user or item is enough. Merged rows keep the order of
    the source, or with `ordered` are sorted by user and item.
    """
    given = columns or Columns()
    opened = open_source(source)
    label = opened.label
    chosen = col.choose(label, opened.names, given, rule_names, opened.partitions)
    notes = list(opened.notes)
    if opened.headed:
        notes.append(f"{label}: {col.describe(chosen, opened.names)}")
    asked = {role for role in col.ROLES[2:] if getattr(given, role) or {role, getattr(chosen, role)} & {*rule_names}}
    names = [name for role in col.ROLES if (name := getattr(chosen, role))]
    batches = opened.batches(names, names[:2])
    rows, decided = encoded(label, batches, chosen, opened.from_text, {"value", "time"} - asked, several=merge)
    notes += [*opened.found, *decided]
    merged = rows.merged(ordered) if merge else rows
    return merged, notes + merged_note(label, len(rows) - len(merged), rows.has_time)


def merged_note(label: str, repeated: int, by_time: bool) -> list[str]:
    kept = "the latest" if by_time else "the last row"
    note = f"{label}: {repeated} rows repeat a (user, item) pair and were merged, keeping {kept} of each."
    return [note] if repeated else []


def _label(source: Any) -> str:
    """What to call a source in a message."""
    if is_files(source):
        return f"{source[0]} and {len(source) - 1} more" if len(source) > 1 else str(source[0])
    if isinstance(source, Query):
        return source.label
    if is_object(source):
        return without_password(source)
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def is_files(source: Any) -> bool:
    """Whether a source is several files."""
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(file, str | Path) for file in source)


def open_source(source: Any) -> Opened:
    """Anything that can be read as a table, with its columns known."""
    label = _label(source)
    if is_object(source):
        fetched = Fetched(source)
        opened = open_paths(fetched.paths, fetched.label)
        opened.label, opened.kept = fetched.label, fetched
        return opened
    if database_of(source) is not None:
        source = Query.of(source, None)  # which says what is missing
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        store = open_store(path)
        return (
            open_path(path, label) if store is None else Opened(store.names, label, table=store.table(), headed=False)
        )
    if is_files(source):
        return open_paths([Path(file).expanduser() for file in source], label)
    if isinstance(source, Query):
        return Opened(source.names(), label, query=source)
    if isinstance(source, Interactions):
        return Opened(source.names, label, table=source.table, headed=False)
    if hasattr(source, "tocoo"):
        return Opened(["user", "item", "value"], label, table=matrix(source), headed=False)
    table = frame(source)
    return Opened(table.column_names, label, table=table)


def is_split_folder(path: Path) -> bool:
    return path.is_dir() and any(any(path.glob(f"*.{part}")) for part in ("train.rating", "test.negative"))


def missing_parts(folder: Path) -> list[str]:
    """The files that a split folder needs and does not have."""
    return [part for part in ("train.rating", "valid.rating", "test.negative") if not any(folder.glob(f"*.{part}"))]


def holds_table(folder: Path) -> bool:
    """Whether a folder has a table to read, so that it need not be downloaded."""
    return folder.is_dir() and any(
        file.name in WELL_KNOWN or file.name.endswith((*TEXT_SUFFIXES, ".parquet")) for file in folder.iterdir()
    )


def read_split_folder(folder: Path | str, name: str | None = None) -> Dataset:
    """The paper's layout: NAME.train.rating, NAME.valid.rating, NAME.test.negative (the clean test) and, optional,
    NAME.valid.noisy and NAME.test.noisy; tab-separated user, item and perhaps value, the ids being row numbers."""
    folder = Path(folder).expanduser()
    stems = {file.name.removesuffix(f".{part}") for part in PARTS for file in folder.glob(f"*.{part}")}
    if len(stems) != 1:
        found = "several datasets" if stems else "no NAME.train.rating"
        raise InputError(f"folder {folder} holds {found}; a split folder has the files of one dataset.")
    stem = stems.pop()
    if missing := missing_parts(folder):
        raise InputError(
            f"folder {folder} has no {stem}.{missing[0]}; add that file (user, item and perhaps value, tab-separated),"
            f" or run `accord data get {stem}` if it is a named dataset."
        )
    parts = {part: read_part(folder / f"{stem}.{part}") for part in PARTS if (folder / f"{stem}.{part}").is_file()}

    notes = []
    for part in ("train.rating", "valid.rating", "valid.noisy"):
        if part in parts and (repeated := len(parts[part]) - len(merged := parts[part].merged())):
            parts[part] = merged
            notes.append(f"{stem}.{part}: {repeated} rows repeat a (user, item) pair and were merged.")
    if repeated := len(parts["test.negative"]) - len(parts["test.negative"].merged()):
        notes.append(f"{stem}.test.negative: {repeated} rows repeat a (user, item) pair; the protocol counts them.")
    noisy = parts.get("valid.noisy")
    dataset = Dataset.of(
        name or stem,
        train=parts["train.rating"],
        valid=parts["valid.rating"] if noisy is None else noisy,
        test=parts["test.negative"],
        valid_clean=None if noisy is None else parts["valid.rating"],
        test_noisy=parts.get("test.noisy"),
    )
    notes += splitting.cold_notes(dataset)
    return replace(dataset, users=_row_numbers(dataset.users), items=_row_numbers(dataset.items), notes=tuple(notes))


def _row_numbers(ids: IdMap) -> IdMap:
    """0 to the largest, if the ids can be row numbers: unused rows count as users or items, as in the paper's code."""
    if ids.ids.type != pa.int64():
        return ids
    numbers = np.asarray(ids.ids)  # sorted
    dense = numbers[0] >= 0 and numbers[-1] < 10 * len(numbers) + 1000
    return IdMap.range(int(numbers[-1]) + 1) if dense else ids


def read_part(path: Path) -> Interactions:
    """One file of a split folder, row for row."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        width = len(file.readline().rstrip("\n").split("\t"))
    if not 2 <= width <= 4:
        raise InputError(f"{path} must have two or three tab-separated columns (user, item, value), not {width}.")
    names = col.ROLES[:width]
    opened = Opened(list(names), str(path), texts=(Layout(path, "\t", names, 0, quoted=False),))
    chosen = Columns(**dict(zip(names, names, strict=True)))
    return encoded(str(path), opened.batches(opened.names, names[:2]), chosen, from_text=True)[0]
