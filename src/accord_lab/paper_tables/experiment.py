"""What an experiment of the paper is, its finished runs among the raw results, and what all experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from accord.comparing.compare import Cell, Request, keys_of
from accord.data.csr import IntArray
from accord.data.interactions import Dataset
from accord.errors import InputError, unknown
from accord.recommender.recommender import Recommender
from accord.report.tables import Figure, Table
from accord_lab import paper

DATASETS = ("ml-100k", "modcloth", "adressa", "electronics")
DECAS = ("deca", "deca-p")
KS = {"ml-100k": (3, 20), "modcloth": (5, 20), "adressa": (5, 20), "electronics": (10, 50)}
NO_LABELS = {"adressa": "the labels (dwell times) of its training pairs are lost"}
CLEAN, NOISY = (4, 5), (1, 2)  # ratings that the paper takes for real preferences and for noise
PAIRS_AT_ONCE = 1_000_000
Part = Table | Figure


@dataclass(frozen=True)
class Found:
    """The finished runs of an experiment on a dataset: for each cell one line per seed."""

    request: Request
    lines: Mapping[Cell, list[dict[str, Any]]]
    missing: Sequence[Cell] = ()

    @property
    def data(self) -> Dataset:
        return self.request.data

    def values(self, cell: Cell, metric: str) -> npt.NDArray[np.float64]:
        return np.array([line["metrics"][metric] for line in self.lines[cell]])


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: what it runs, on what, and how it is shown."""

    title: str
    cells: Callable[[Request, Sequence[str], Sequence[str]], list[Cell]]
    show: Callable[[Found], list[Part]]
    prepare: Callable[[Request], Request] = lambda request: request
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = tuple(paper.MODELS)
    methods: tuple[str, ...] = tuple(paper.METHODS)
    lacking: Mapping[str, str] = field(default_factory=dict)  # datasets that it cannot use, and why
    notes: tuple[str, ...] = ()

    def choose(self, what: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """The datasets, models or methods asked for, or the usual ones if none are."""
        usual: tuple[str, ...] = getattr(self, f"{what}s")
        allowed = tuple(dict.fromkeys((*usual, *(paper.MODELS if what == "model" else ()))))
        for one in wanted or ():
            if what == "dataset" and one in self.lacking:
                raise InputError(f"'{self.title}' cannot be made for {one}: {self.lacking[one]}.")
            if one not in allowed:
                raise unknown(f"{what} for '{self.title}'", one, allowed)
        return tuple(one for one in allowed if one in (wanted or usual))


def find(request: Request, cells: Sequence[Cell], by_key: Mapping[str, dict[str, Any]]) -> Found:
    """The cells whose every seed is finished."""
    lines, missing = {}, []
    for cell in cells:
        keys = keys_of(request, cell)
        if set(keys) <= set(by_key):
            lines[cell] = [by_key[key] for key in keys]
        else:
            missing.append(cell)
    return Found(request, lines, missing)


def deep(dataset: str) -> str:
    """Recall at the larger K that the paper reports, where a figure says only 'recall'."""
    return f"recall@{KS.get(dataset, (5, 20))[1]}"


def spread(values: npt.ArrayLike) -> float:
    """Standard deviation over seeds; 0 for a single one."""
    many = np.asarray(values, dtype=float)
    return float(many.std(ddof=1)) if many.size > 1 else 0.0


def mean_sd(values: npt.ArrayLike, digits: int = 4) -> str:
    many = np.asarray(values, dtype=float)
    return f"{many.mean():.{digits}f}" + (f" ± {spread(many):.{digits}f}" if many.size > 1 else "")


def rated(data: Dataset) -> tuple[IntArray, IntArray, npt.NDArray[np.float64]]:
    """Users, items and ratings of the training pairs, sorted by user and item whatever the order of the file."""
    if not data.train.has_value:
        raise InputError(f"the training pairs of {data.name} have no ratings; give another --dataset.")
    users, items = data.users.rows(data.train.users), data.items.rows(data.train.items)
    order = np.lexsort((items, users))
    return users[order], items[order], data.train.column("value")[order].astype(np.float64)


def posteriors(trained: Recommender, users: IntArray, items: IntArray) -> npt.NDArray[np.float32]:
    """For each run the probability that the pairs are real preferences: [R, pairs]."""
    runs = trained.num_runs
    parts = []
    with torch.inference_mode():
        for part in np.array_split(np.arange(len(users)), max(1, -(-len(users) * runs // PAIRS_AT_ONCE))):
            rows = [torch.from_numpy(ids[part]).to(trained.device).expand(runs, -1) for ids in (users, items)]
            parts.append(trained.method.posterior(*rows).float().cpu().numpy())
    return np.concatenate(parts, 1)
