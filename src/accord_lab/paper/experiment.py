"""What an experiment of the paper is, its finished runs among the raw results, and what all experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Request, keys_of
from accord.data.csr import IntArray
from accord.data.interactions import Dataset
from accord.errors import InputError, unknown
from accord.report.tables import Table
from accord_lab.names import METHODS, MODELS, Floats
from accord_lab.writing import Figure

DATASETS = ("ml-100k", "modcloth", "adressa", "electronics")
DECAS = ("deca", "deca-p")
KS = {"ml-100k": (3, 20), "modcloth": (5, 20), "adressa": (5, 20), "electronics": (10, 50)}
NO_LABELS = {"adressa": "the labels (dwell times) of its training pairs are lost"}
CLEAN, NOISY = (4, 5), (1, 2)  # ratings that the paper takes for real preferences and for noise
Part = Table | Figure


@dataclass(frozen=True)
class FinishedRuns:
    """The finished runs of an experiment on a dataset: for each cell one line per seed."""

    request: Request
    lines: Mapping[Cell, list[dict[str, Any]]]
    missing: Sequence[Cell] = ()

    @property
    def data(self) -> Dataset:
        return self.request.data

    def values(self, cell: Cell, metric: str) -> Floats:
        return np.array([line["metrics"][metric] for line in self.lines[cell]])


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: what it runs, on what, and how it is shown."""

    title: str
    cells: Callable[[Request, Sequence[str], Sequence[str]], list[Cell]]
    show: Callable[[FinishedRuns], list[Part]]
    prepare: Callable[[Request], Request] = lambda request: request
    models: tuple[str, ...] = tuple(MODELS)
    methods: tuple[str, ...] = tuple(METHODS)
    lacking: Mapping[str, str] = field(default_factory=dict)  # datasets that it cannot use, and why
    notes: tuple[str, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(name for name in DATASETS if name not in self.lacking)

    def choose(self, what: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """The datasets, models or methods that are wanted, or the usual ones."""
        usual: tuple[str, ...] = getattr(self, f"{what}s")
        allowed = tuple(dict.fromkeys((*usual, *(MODELS if what == "model" else ()))))
        for one in wanted or ():
            if what == "dataset" and one in self.lacking:
                raise InputError(f"'{self.title}' cannot be made for {one}: {self.lacking[one]}.")
            if one not in allowed:
                raise unknown(f"{what} for '{self.title}'", one, allowed)
        return tuple(one for one in allowed if one in (wanted or usual))


def finished_runs(request: Request, cells: Sequence[Cell], by_key: Mapping[str, dict[str, Any]]) -> FinishedRuns:
    """The cells whose every seed is finished."""
    keys = {cell: keys_of(request, cell) for cell in cells}
    lines = {cell: [by_key[key] for key in runs] for cell, runs in keys.items() if by_key.keys() >= {*runs}}
    return FinishedRuns(request, lines, [cell for cell in cells if cell not in lines])


def deep(dataset: str) -> str:
    """Recall at the larger K that the paper reports, where a figure says only 'recall'."""
    return f"recall@{KS.get(dataset, (5, 20))[1]}"


def rated(data: Dataset) -> tuple[IntArray, IntArray, Floats]:
    """Users, items and ratings of the training pairs, sorted by user and item whatever the order of the file."""
    if not data.train.has_value:
        raise InputError(f"the training pairs of {data.name} have no ratings; give another --dataset.")
    users, items = data.users.rows(data.train.users), data.items.rows(data.train.items)
    order = np.lexsort((items, users))
    return users[order], items[order], data.train.column("value")[order].astype(np.float64)
