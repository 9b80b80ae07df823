"""What a campaign found, as a file that the page is written from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


@dataclass
class Table:
    title: str
    heads: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Found:
    """`how`: sentences, with the command, and neither a date nor a machine's name. `figures`: files in docs/images."""

    title: str
    how: list[str]
    tables: list[Table]
    figures: list[str] = field(default_factory=list)

    def write(self, name: str, folder: Path = RESULTS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def table_as_text(table: Table) -> str:
    """For the screen of whoever runs the campaign."""
    rows = [[str(cell) for cell in row] for row in (table.heads, *table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{table.title}:", *lines, *table.notes])
