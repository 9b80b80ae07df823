"""Raw results by what was run, and how a sentence is made of their figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.comparing.compare import Cell
from accord.comparing.results import Results
from accord.errors import InputError
from accord_lab.charts import display_name
from accord_lab.paper_tables.experiment import spread

Floats = npt.NDArray[np.float64]
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
        found = [
            line
            for line in self.lines
            if (line["dataset"], line["model"], line["method"]) == (dataset, cell.model, cell.method or "none")
            and all(line["settings"].get(name) == value for name, value in wanted.items())
        ]
        if not found:
            raise InputError(f"the raw results have no runs of {cell.name} on {dataset}.")
        return found

    def values(self, dataset: str, cell: Cell, metric: str = "recall@20") -> Floats:
        return np.array([line["metrics"][metric] for line in self.of(dataset, cell)])

    def mean(self, dataset: str, cell: Cell, metric: str = "recall@20") -> float:
        return float(self.values(dataset, cell, metric).mean())

    def cells(self, dataset: str) -> list[Cell]:
        """Every model and method of a dataset, whatever the settings."""
        seen = {(line["model"], line["method"]): None for line in self.lines if line["dataset"] == dataset}
        return [Cell(model, None if method == "none" else method) for model, method in seen]


def said(sentence: str, *holds: bool | np.bool_) -> str:
    """A sentence whose words are true only while these hold: otherwise the raw results no longer say it."""
    if not all(holds):
        raise InputError(f"the raw results no longer say: {sentence}")
    return sentence


def fig(value: float, digits: int = 4) -> str:
    """A figure without its leading zero, and with a minus sign that is one."""
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + (text[1:] if text.startswith("0.") else text)


def signed(value: float, digits: int = 4) -> str:
    return ("+" if value >= 0 else "") + fig(value, digits)


def percent(value: float, digits: int = 1) -> str:
    """A change, with its sign."""
    return f"{100 * value:+z.{digits}f}%".replace("-", "−")


def share(value: float, digits: int = 0) -> str:
    return f"{abs(value):.{digits}%}"


def fig_sd(values: npt.ArrayLike, digits: int = 4) -> str:
    many = np.asarray(values, dtype=float)
    return fig(float(many.mean()), digits) + (f" ± {fig(spread(many), digits)}" if many.size > 1 else "")


def span(values: Iterable[float], digits: int = 4) -> str:
    """The smallest to the largest; one figure if both round to the same."""
    known = sorted(values)
    low, high = fig(known[0], digits), fig(known[-1], digits)
    return low if low == high else f"{low} to {high}"


def shares(values: Iterable[float], digits: int = 0) -> str:
    known = sorted(map(abs, values))
    low, high = f"{100 * known[0]:.{digits}f}", f"{100 * known[-1]:.{digits}f}"
    return f"{low}%" if low == high else f"{low} to {high}%"


def listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def named(cell: Cell) -> str:
    return display_name(cell.model) + (f" with {display_name(cell.method)}" if cell.method else "")


def bullets(items: Iterable[Sequence[str]]) -> str:
    """A list whose items are sentences, wrapped as the pages are."""
    return "".join(_wrapped(" ".join(item), "- ", "  ") for item in items)


def paragraph(*sentences: str) -> str:
    return _wrapped(" ".join(sentences), "", "")


def _wrapped(text: str, first: str, rest: str) -> str:
    filled = textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return filled + "\n"
