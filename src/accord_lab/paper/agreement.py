"""How often models, and seeds of one model, disagree on clean and on noisy positives."""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.comparing.compare import Cell, Request
from accord.errors import InputError
from accord.recommender.recommender import Recommender
from accord.report.tables import Table
from accord_lab.drawing import DARK, LIGHT, drawn, legend_below, panels
from accord_lab.names import display_name, mean_sd, standard_deviation
from accord_lab.pair_scores import pair_scores
from accord_lab.paper.experiment import CLEAN, NO_LABELS, NOISY, Experiment, FinishedRuns, Part, rated
from accord_lab.paper.settings import paper_settings
from accord_lab.writing import Figure

Bits = npt.NDArray[np.bool_]  # a prediction for every training pair
SHORT = {"neumf": "NMF", "lightgcn": "LGN"}  # as the paper's figure has them
GROUPS = {"clean": CLEAN, "noisy": NOISY}


def _cells(request: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [Cell(model, method, _settings(request, model)) for model in models for method in methods]


def _settings(request: Request, model: str) -> tuple[tuple[str, Any], ...]:
    """MF is in none of the paper's tables: it trains with the settings of GMF."""
    if model != "mf" or request.protocol != "published":
        return ()
    settings = paper_settings(request.data.name, "gmf", "normal") or {}
    return tuple((f"train.{key}", value) for key, value in settings.items())


def _prepare(request: Request) -> Request:
    users, items, _ = rated(request.data)

    def more(trained: Recommender) -> list[dict[str, Any]]:
        return [{"predictions": packed(run >= 0.5)} for run in pair_scores(trained, users, items)]

    return replace(request, more=more)


def packed(bits: Bits) -> str:
    """One bit per pair, as text for a JSON line."""
    return base64.b85encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def unpacked(text: str, size: int) -> Bits:
    return np.unpackbits(np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8), count=size).astype(bool)


def disagreement(one: Bits, other: Bits) -> tuple[float, float]:
    """Share of pairs on which two predictions differ, and Cohen's κ: agreement beyond what chance would give."""
    differ = float((one != other).mean())
    p, q = float(one.mean()), float(other.mean())
    by_chance = p * (1 - q) + q * (1 - p)
    return differ, 1 - differ / by_chance if by_chance else 1.0


Pairs = dict[str, list[tuple[Bits, Bits]]]


def show(finished: FinishedRuns) -> list[Part]:
    _, _, ratings = rated(finished.data)
    groups = {name: np.isin(ratings, values) for name, values in GROUPS.items()}
    if not all(group.any() for group in groups.values()):
        raise InputError(f"the training pairs of {finished.data.name} have no ratings of {NOISY} or of {CLEAN}.")
    bits = {
        cell.model: [unpacked(line["predictions"], len(ratings)) for line in lines]
        for cell, lines in finished.lines.items()
    }
    models = {
        f"{_short(a)} – {_short(b)}": list(zip(bits[a], bits[b], strict=True))
        for a, b in itertools.combinations(bits, 2)
    }
    seeds = {_short(model): list(itertools.combinations(runs, 2)) for model, runs in bits.items() if len(runs) > 1}
    kinds = {"different models": models, "different seeds of one model": seeds}
    kinds = {kind: pairs for kind, pairs in kinds.items() if pairs}
    tables = [_table(finished, kind, pairs, groups) for kind, pairs in kinds.items()]
    return [*([_figure(finished, kinds, groups)] if kinds else []), *tables, _shares(finished, bits, groups)]


def _short(model: str) -> str:
    return SHORT.get(model, display_name(model))


def _of(pairs: list[tuple[Bits, Bits]], group: Bits) -> npt.NDArray[np.float64]:
    """[pairs, 2]: share that differs, κ."""
    return np.array([disagreement(one[group], other[group]) for one, other in pairs])


def _table(finished: FinishedRuns, kind: str, pairs: Pairs, groups: dict[str, Bits]) -> Table:
    rows = []
    for name, both in pairs.items():
        clean, noisy = (_of(both, group) for group in groups.values())
        ratio = noisy[:, 0].mean() / clean[:, 0].mean() if clean[:, 0].any() else float("nan")
        row = [mean_sd(part[:, column]) for column in (0, 1) for part in (clean, noisy)]
        rows.append((name, *row[:2], f"{ratio:.2f}", *row[2:]))
    columns = ("pair", "differ, clean", "differ, noisy", "noisy / clean", "κ, clean", "κ, noisy")
    more = sum(float(row[3]) > 1 for row in rows)
    less_kappa = sum(
        _of(both, groups["noisy"])[:, 1].mean() < _of(both, groups["clean"])[:, 1].mean() for both in pairs.values()
    )
    notes = (
        f"They differ more often on noisy pairs in {more} of {len(rows)} rows; κ, which corrects for the disagreement "
        f"expected by chance, is lower on noisy pairs in {less_kappa}.",
    )
    return Table(f"{finished.data.name}: {kind}", columns, tuple(rows), notes)


def _shares(finished: FinishedRuns, bits: dict[str, list[Bits]], groups: dict[str, Bits]) -> Table:
    rows = tuple(
        (display_name(model), *(mean_sd([run[group].mean() for run in runs]) for group in groups.values()))
        for model, runs in bits.items()
    )
    columns = ("model", *(f"{name}: {int(group.sum()):,} pairs" for name, group in groups.items()))
    notes = ("Share of the pairs with a probability of at least 0.5: the closer to one half, the more room to differ.",)
    return Table(f"{finished.data.name}: predicted positive", columns, rows, notes)


def _figure(finished: FinishedRuns, kinds: dict[str, Pairs], groups: dict[str, Bits]) -> Figure:
    name = finished.data.name
    canvas, axes = panels(len(kinds), width=5.0, height=3.6)
    for axis, (kind, pairs) in zip(axes, kinds.items(), strict=True):
        places = np.arange(len(pairs))
        for shift, look, (group, keep) in zip((-0.2, 0.2), (LIGHT, DARK), groups.items(), strict=True):
            values = [_of(both, keep)[:, 0] for both in pairs.values()]
            low, high = GROUPS[group]
            label = f"{group} (ratings {low} and {high})"
            axis.bar(
                places + shift, [v.mean() for v in values], 0.4, yerr=[standard_deviation(v) for v in values],
                capsize=3, label=label, ecolor="#333333", **look,
            )  # fmt: skip
        tilt = {"rotation": 30, "ha": "right"} if len(pairs) > 4 else {}
        axis.set_xticks(places, list(pairs), **tilt)
        axis.set(title=kind.capitalize(), ylabel="share of pairs that differ")
        axis.grid(axis="y")
    legend_below(canvas, axes)
    title = f"{display_name(name)}: predictions that differ, on clean and on noisy positives"
    caption = "Mean over seeds, or pairs of seeds; the line on a bar is one standard deviation."
    return drawn(canvas, f"agreement-{name}.svg", title, caption)


AGREEMENT = Experiment(
    "Disagreement on clean and noisy positives",
    _cells,
    show,
    _prepare,
    models=("mf", "gmf", "neumf", "lightgcn"),
    methods=("normal",),
    lacking=NO_LABELS,
    notes=(
        "As in the paper: normal training; clean positives have ratings 4 and 5, noisy ones 1 and 2; two models differ "
        "on a pair where one gives it a probability of at least 0.5 and the other does not. The paper has this as a "
        "figure without its values in the source, and says that predictions differ significantly more on noisy "
        "pairs than on clean ones, between models and between seeds of one model.",
        "Assumed: the pairs are those of training; models train with the settings of Normal in the overall table, MF "
        "with those of GMF; two models are compared seed by seed, and one model with itself by every pair of seeds. "
        "The paper's text says MovieLens-100k, the caption of its figure says Modcloth; both are here.",
    ),
)
