"""Excel files as tables of text, read by python-calamine (the extra `excel`)."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from accord.data import text, untrusted
from accord.errors import InputError

SUFFIXES = (".xlsx", ".xlsm", ".xls")
OTHER_SUFFIXES = (".xlsb", ".ods")  # which calamine reads too, but cannot be checked before


@dataclass(frozen=True)
class Sheet:
    """The rows of a sheet, without its header."""

    path: Path
    names: tuple[str, ...]
    rows: list[list[Any]]
    exact: ClassVar[bool] = True

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        places = [self.names.index(name) for name in names]
        kinds = [name in ids for name in names]
        rows = ([_text(row[place], is_id) for place, is_id in zip(places, kinds, strict=True)] for row in self.rows)
        return text.as_batches(self.path, rows, names, ids)


def open_sheet(path: Path, label: str) -> tuple[Sheet, bool, list[str]]:
    """The first sheet that is not empty, whether it has a header, and notes."""
    try:
        import python_calamine
    except ImportError:
        raise InputError(
            f"{label} is an Excel file, which needs python-calamine: pip install 'accord[excel]', or save it as CSV."
        ) from None
    if path.suffix.lower() != ".xls":
        untrusted.check_sheets(path, label)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        filled: list[tuple[str, list[list[Any]]]] = []
        for name in book.sheet_names:
            if not filled:
                rows = book.get_sheet_by_name(name).to_python()
                filled = [(name, rows)] if rows else []
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise InputError(f"{label} cannot be read as Excel ({error}); save it again, or as CSV.") from None
    if not filled:
        raise InputError(f"{label} is empty: it has no rows of interactions; give a log that has some.")
    sheet, rows = filled[0]
    notes = [f"{label}: read sheet '{sheet}' of {len(book.sheet_names)}."] if len(book.sheet_names) > 1 else []
    first = [_text(cell, True) or "" for cell in rows[0]]
    names = text.header(first)
    if names is not None:
        return Sheet(path, names, rows[1:]), True, notes
    names = text.unnamed(label, first)
    notes.append(f"{label}: no header line; its columns were read as {', '.join(names)}.")
    return Sheet(path, names, rows), False, notes


def _text(cell: Any, is_id: bool) -> str | None:
    """A cell as text: Excel keeps every number as a float, so 12 comes as 12.0."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, datetime.timedelta):
        return str(cell.total_seconds())
    return text.as_text(cell, is_id)
