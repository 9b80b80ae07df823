"""Tables of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Cell = str | float | None

_NUMBER = re.compile(r"[<>≤≥]? ?[-+−]?(\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?( ± [\d.]+%?)?|inf\b|nan\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    marked: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the bold cells; CSV has no bold

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "every row has a cell for each column"
        assert all(0 <= row < len(self.rows) and 0 <= column < len(self.columns) for row, column in self.marked)

    @classmethod
    def of(cls, title: str, columns: Mapping[str, Sequence[Cell]], *notes: str) -> Table:
        return cls(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), notes)

    def numeric(self) -> list[bool]:
        columns = [[cell_text(row[place]) for row in self.rows] for place in range(len(self.columns))]
        return [any(texts) and all(_NUMBER.match(text) for text in texts if text) for texts in columns]

    def texts(self, escape: Callable[[str], str] = str, bold: str = "{}") -> list[list[str]]:
        """The escaped text of each row; the marked cells in `bold`."""
        texts = [[escape(cell_text(cell)) for cell in row] for row in self.rows]
        for row, column in self.marked:
            texts[row][column] = bold.format(texts[row][column]) if texts[row][column] else ""
        return texts


def cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, str | int) else f"{cell:z.4f}"  # z: no -0.0000


def signed(number: float) -> str:
    """With + or a minus sign, which is longer than a hyphen."""
    return f"{number:+.4f}".replace("-", "−")


def p_text(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
