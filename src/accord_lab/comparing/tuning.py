"""Equal tuning: the same number of trials for every row, chosen by validation NDCG@20 of one more seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accord.comparing.compare import ALWAYS, Cell, Request, compare, has_option, keys_of
from accord.comparing.results import Results
from accord.consensus.families import FAMILIES, Range
from accord.errors import Argument, InputError
from accord.methods import find_method
from accord.methods.softmax import Softmax

TUNING_SEED = 1


@dataclass(frozen=True)
class LogRange:
    low: float
    high: float

    def at(self, share: float) -> float:
        return float(f"{self.low * (self.high / self.low) ** share:.2g}")


@dataclass(frozen=True)
class Choice:
    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        return self.values[int(share * len(self.values))]


# What tuning chooses from: for DeCA the paper's grid. The penalty is a range, so that a method without options has as
# many different trials as one with three. All of these may differ within a batch of runs, so trials train at once.
SPACE: dict[str, LogRange | Choice] = {
    "train.l2": LogRange(1e-4, 10.0),
    "method.c1": Choice((1.0, 10.0, 100.0, 1000.0)),
    "method.c2": Choice((1.0, 10.0, 100.0, 1000.0)),
    "method.alpha": Choice((0.0, 0.5, 1.0)),
    "method.drop": Choice((0.05, 0.1, 0.2, 0.3)),
    "method.ramp": Choice((300, 1000, 3000, 30000)),
    "method.beta": Choice((0.1, 0.2, 0.3, 0.5, 1.0)),
    "method.sigma": Choice((0.01, 0.03, 0.1, 0.3)),
    "method.relabel": Choice((0.0, 0.05, 0.2)),
    "method.t_clean": Choice((1.0, 2.0, 5.0)),
    "method.t_noisy": Choice((0.1, 0.3, 0.5, 1.0)),
    "method.c_noisy": Choice((0.25, 0.5, 1.0)),
    "method.temperature": Choice((0.1, 0.3, 1.0, 3.0)),
    "model.l2": LogRange(10.0, 100_000.0),  # of ease
}
SOFTMAX = {"method.temperature": LogRange(0.08, 0.6), "method.positive_temperature": LogRange(0.1, 2.0)}


def space_of(model: str, method: str | None = None) -> dict[str, LogRange | Choice | Range]:
    """What tuning chooses from: for a solved model, the ranges of `auto`; for EASE, only its penalty."""
    families = [family for family in FAMILIES if family.model == model and family.method is None]
    ranges = families[0].ranges if families and model not in ALWAYS else {}
    by_softmax = method is not None and issubclass(find_method(method), Softmax)
    return {**SPACE, **ranges, **(SOFTMAX if by_softmax else {})}


def trials_of(request: Request, cell: Cell, count: int) -> list[Cell]:
    """The trials of a cell: its defaults, and a Latin hypercube that spreads each option evenly over its range."""
    given = {*dict(cell.options), *dict(request.common)}
    space = space_of(cell.model, cell.method)
    names = [name for name in space if has_option(cell.model, cell.method, name) and name not in given]
    rng, rest = np.random.default_rng(0), count - 1
    shares = (np.array([rng.permutation(rest) for _ in names]).T + 0.5) / max(1, rest)  # [rest, names]
    drawn = [tuple((name, space[name].at(share)) for name, share in zip(names, row, strict=True)) for row in shares]
    return list(dict.fromkeys(replace(cell, options=cell.options + options) for options in [(), *drawn]))


def tuned(request: Request, cells: Sequence[Cell], trials: int, results: Results, finished: bool = False) -> list[Cell]:
    """For every cell the best of equally many trials. If `finished`, nothing is run and all trials must exist."""
    if request.protocol != "corrected":
        raise InputError("tuning chooses by validation NDCG@20, which only the corrected protocol measures.")
    trial = replace(request, seeds=(TUNING_SEED,), per_user=False, more=None, each_epoch=None)
    candidates = {cell: trials_of(request, cell, trials) for cell in cells}
    if not finished:
        compare(trial, [one for tries in candidates.values() if len(tries) > 1 for one in tries], results)
    scores = {key: result["valid_ndcg@20"] for key, result in results.by_key().items()}
    best = []
    for cell, tries in candidates.items():
        if len(tries) == 1:  # nothing to choose from
            best.append(cell)
            continue
        keys = [keys_of(trial, one)[0] for one in tries]
        if not scores.keys() >= {*keys}:
            why = f"{results.file} lacks trials of '{cell.name}'; run the command without "
            raise InputError(why, Argument("render_only", True), ".")
        values = [scores[key] for key in keys]
        best.append(cell if values[0] is None else tries[int(np.argmax(values))])
    return best
