"""Raw results by what was run, and the tables and claims that pages make of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import Cell
from accord.comparing.results import Results
from accord.errors import InputError
from accord.report.tables import Table
from accord_lab.names import Floats, display_name
from accord_lab.writing import markdown

DATASETS = ("ml-100k", "modcloth", "adressa")
WIDTH = 128


class Raw:
    """The lines of a file of raw results, by dataset, model, method and settings."""

    def __init__(self, folder: Path, name: str) -> None:
        self.lines = Results(folder, name).read()
        if not self.lines:
            raise InputError(f"{folder / name}.jsonl does not exist, or has no results.")
        self.datasets = [name for name in DATASETS if any(line["dataset"] == name for line in self.lines)]

    def of(self, dataset: str, cell: Cell) -> list[dict[str, Any]]:
        """The lines of a cell, one per seed."""
        wanted = dict(cell.options)
        lines = [
            line
            for line in self.lines
            if (line["dataset"], line["model"], line["method"]) == (dataset, cell.model, cell.method or "none")
            and all(line["settings"].get(name) == value for name, value in wanted.items())
        ]
        if not lines:
            raise InputError(f"the raw results have no runs of {cell.name} on {dataset}.")
        return lines

    def values(self, dataset: str, cell: Cell, metric: str = "recall@20") -> Floats:
        return np.array([line["metrics"][metric] for line in self.of(dataset, cell)])

    def mean(self, dataset: str, cell: Cell, metric: str = "recall@20") -> float:
        return float(self.values(dataset, cell, metric).mean())

    def cells(self, dataset: str) -> list[Cell]:
        """Every model and method of a dataset, whatever the settings."""
        seen = {(line["model"], line["method"]): None for line in self.lines if line["dataset"] == dataset}
        return [Cell(model, None if method == "none" else method) for model, method in seen]


def cell_name(cell: Cell) -> str:
    return display_name(cell.model) + (f" with {display_name(cell.method)}" if cell.method else "")


def claim(sentence: str, *holds: bool | np.bool_) -> str:
    """A list item that is true only while all of `holds` are; otherwise an error, since the page must change."""
    if not all(holds):
        raise InputError(f"the raw results no longer say: {sentence}")
    indented = textwrap.fill(
        sentence, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return indented + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    return markdown(Table("", tuple(columns), tuple(map(tuple, rows))))
