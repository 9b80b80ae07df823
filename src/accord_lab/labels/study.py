"""What the studies of labels share: one JSON line per draw or run, written as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accord.comparing.results import keep_lines, read_lines
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.io.files import only_writer
from accord_lab.names import mean_sd

Line = dict[str, Any]
SIGNIFICANT = 0.05  # p of a paired test


def require_labels(data: Dataset) -> None:
    """Refuse data whose training interactions have no labels."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")


def add_missing(file: Path, keys: Sequence[Line], make: Callable[[list[Line]], Iterator[Line]]) -> list[Line]:
    """All lines of a file, after adding those for the keys (fields of a line) that it lacks, each as it is made."""
    with only_writer(file.parent):
        lines = read_lines(file)
        missing = [key for key in keys if not any(key.items() <= line.items() for line in lines)]
        for line in make(missing) if missing else ():
            lines.append(line)
            keep_lines(file, lines)
    return lines


def grouped(lines: Iterable[Line], *fields: str) -> list[list[Line]]:
    """The lines that have the same values of some fields, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in fields), []).append(line)
    return list(groups.values())


def spread(lines: Iterable[Line], field: str) -> str:
    return mean_sd([line[field] for line in lines])
