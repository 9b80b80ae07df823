"""What a campaign found, as a file that the page is written from."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def _now() -> dict[str, Any]:
    """The commit, with a plus where files differ from it, and the date."""
    commit, changes = (
        subprocess.run(["git", *words], cwd=RESULTS.parent, capture_output=True, text=True, check=False).stdout.strip()
        for words in (["rev-parse", "--short=7", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    return {"commit": (commit or "unknown") + ("+" if changes else ""), "date": f"{datetime.now(UTC):%Y-%m-%d}"}


BEGAN = _now()  # when the campaign was started, as this is imported by it


def stamp(seed: int | None = None) -> dict[str, Any]:
    """What a record rests on: commit, date, and the seed of what was random, if anything was."""
    return BEGAN | {"seed": seed}


@dataclass
class Table:
    title: str
    heads: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    made: dict[str, Any] | None = None  # where it is not of the time of the others


@dataclass
class Found:
    """`how`: sentences, with the command, and no machine's name. `figures`: files in docs/images."""

    title: str
    how: list[str]
    tables: list[Table]
    figures: list[str] = field(default_factory=list)
    made: dict[str, Any] | None = field(default_factory=stamp)  # None: its tables say it row by row

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
