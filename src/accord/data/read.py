"""Files, folders and frames -> Interactions; the paper's split folders -> Dataset."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data import columns as col
from accord.data import split as splitting
from accord.data.columns import Columns
from accord.data.encode import encoded
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.sessions import in_sessions
from accord.data.sources import TEXT_SUFFIXES, WELL_KNOWN, Opened, open_source
from accord.data.text import Delimited
from accord.errors import ColumnArgument, InputError, Note

VALIDATION = "valid.rating"
NEEDED_PARTS = ("train.rating", VALIDATION, "test.negative")
PARTS = (*NEEDED_PARTS, "valid.noisy", "test.noisy")
CHOOSE_OTHERS = Note(" Choose others with ", ColumnArgument("user"), " and the like.")


def read_all_columns(source: Any) -> tuple[pa.Table, bool]:
    """Every column of a file or frame, and whether it was read from text."""
    opened = open_source(source)
    col.refuse_repeated(opened.label, opened.names)
    return opened.read(opened.names), opened.from_text


def read_table(
    source: Any,
    columns: Columns | None = None,
    rule_names: Sequence[str] = (),
    merge: bool = True,
    ordered: bool = False,
    for_labels: Collection[str] = (),
    session_gap: str | None = None,
) -> tuple[Interactions, list[str]]:
    """Interactions of a file, parquet folder, frame or sparse matrix, one row per pair, and notes on what was decided.
    `rule_names` are the columns that a clean rule names: one that is not numeric is an error then, not left out.
    Without `merge` all rows stay, repeated pairs too, and one user or item is enough. Merged rows stay in the order of
    the source, or with `ordered` are sorted by user and item. `for_labels`: simplified names of columns that labels are
    read from. `session_gap`: the pause, as 30m, after which a user's next session begins; sessions are the users then.
    """
    opened, given = open_source(source), columns or Columns()
    label = opened.label
    chosen = col.choose(label, opened.names, given, rule_names, opened.partitions, opened.timestamps)
    names = chosen.names()
    guessed = {role for role in ("value", "time") if role not in given.names()}
    guessed -= {role for role in guessed if {role, names.get(role)} & {*rule_names}}
    batches = opened.batches(list(names.values()), [names["user"], names["item"]])
    rows, decided = encoded(label, batches, chosen, opened.from_text, guessed, several=merge)
    notes = [*opening_notes(opened, chosen, CHOOSE_OTHERS, for_labels), *opened.late_notes, *decided]
    if session_gap is not None:
        rows, made = in_sessions(label, rows, session_gap)
        notes.append(made)
    merged = rows.merged(ordered) if merge else rows
    return merged, notes + merged_note(label, len(rows) - len(merged), rows.has_time)


def opening_notes(opened: Opened, chosen: Columns, advice: str = "", for_labels: Collection[str] = ()) -> list[str]:
    if not opened.headed:
        return [*opened.notes]
    return [*opened.notes, Note(f"{opened.label}: {col.describe(chosen, opened.names, for_labels)}", advice)]


def merged_note(label: str, repeated: int, by_time: bool) -> list[str]:
    which = "the latest" if by_time else "the last row"
    note = f"{label}: {repeated} rows repeat a (user, item) pair and were merged, keeping {which} of each."
    return [note] if repeated else []


def is_split_folder(path: Path) -> bool:
    return path.is_dir() and any(any(path.glob(f"*.{part}")) for part in ("train.rating", "test.negative"))


def missing_parts(folder: Path) -> list[str]:
    return [part for part in NEEDED_PARTS if not any(folder.glob(f"*.{part}"))]


def holds_table(folder: Path) -> bool:
    """Whether a folder has a table to read, so that it need not be downloaded."""
    return folder.is_dir() and any(
        file.name in WELL_KNOWN or file.name.endswith((*TEXT_SUFFIXES, ".parquet")) for file in folder.iterdir()
    )


def read_split_folder(folder: Path | str, name: str | None = None) -> Dataset:
    """The paper's layout: NAME.train.rating, NAME.valid.rating, NAME.test.negative (the clean test) and, optional,
    NAME.valid.noisy and NAME.test.noisy; tab-separated user, item and perhaps value, the ids being row numbers.
    Without a validation, one is cut from training."""
    folder = Path(folder).expanduser()
    stems = {file.name.removesuffix(f".{part}") for part in PARTS for file in folder.glob(f"*.{part}")}
    if len(stems) != 1:
        held = "several datasets" if stems else "no NAME.train.rating"
        raise InputError(f"folder {folder} holds {held}; a split folder has the files of one dataset.")
    stem = stems.pop()
    if missing := [part for part in missing_parts(folder) if part != VALIDATION]:
        raise InputError(
            f"folder {folder} has no {stem}.{missing[0]}; add that file (user, item and perhaps value, tab-separated),"
            f" or run `accord data get {stem}` if it is a named dataset."
        )
    parts = {part: read_part(folder / f"{stem}.{part}") for part in PARTS if (folder / f"{stem}.{part}").is_file()}

    notes = []
    for part in ("train.rating", VALIDATION, "valid.noisy"):
        if part in parts and (repeated := len(parts[part]) - len(merged := parts[part].merged())):
            parts[part] = merged
            notes.append(f"{stem}.{part}: {repeated} rows repeat a (user, item) pair and were merged.")
    if repeated := len(parts["test.negative"]) - len(parts["test.negative"].merged()):
        notes.append(f"{stem}.test.negative: {repeated} rows repeat a (user, item) pair; the protocol counts them.")
    noisy = parts.get("valid.noisy")
    if noisy is None and VALIDATION not in parts:
        whole = parts["train.rating"].merged(ordered=True)
        held_out = splitting.assigned(whole, "random", (8 / 9, 1 / 9, 0), seed=0) == splitting.VALID
        parts |= {"train.rating": whole.filter(~held_out), VALIDATION: whole.filter(held_out)}
        drawn = f"{held_out.sum():,} of {len(whole):,} training interactions are the validation, drawn at random"
        notes.append(f"folder {folder} has no {stem}.{VALIDATION}: {drawn}.")
    dataset = Dataset.of(
        name or stem,
        train=parts["train.rating"],
        valid=parts[VALIDATION] if noisy is None else noisy,
        test=parts["test.negative"],
        valid_clean=None if noisy is None else parts.get(VALIDATION),
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
    names = col.GUESSED[:width]
    opened = Opened.of_texts([Delimited(path, "\t", names, 0, quoted=False)], str(path), headed=False)
    chosen = Columns(**dict(zip(names, names, strict=True)))
    return encoded(str(path), opened.batches(opened.names, names[:2]), chosen, from_text=True)[0]
