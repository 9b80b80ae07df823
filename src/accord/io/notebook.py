"""How results look in a notebook: a small table of HTML, in which nothing of a log is taken for markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def as_html(title: str, rows: Iterable[Sequence[Any]], header: Sequence[str] = (), below: str = "") -> str:
    """A title, a table and a sentence below it."""
    lines = [f"<p><strong>{escape(title)}</strong></p>", "<table>"]
    lines += [_row(header, "th")] if header else []
    lines += [*(_row(row, "td") for row in rows), "</table>"]
    return "".join([*lines, f"<p>{escape(below)}</p>" if below else ""])


def _row(cells: Sequence[Any], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(_text(cell))}</{tag}>" for cell in cells) + "</tr>"


def _text(cell: Any) -> str:
    """A cell as it is shown: four digits of a fraction, commas in a large number, nothing for None."""
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
