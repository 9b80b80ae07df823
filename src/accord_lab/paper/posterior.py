"""The mean posterior of the training pairs by their rating, which no method sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Request
from accord.evaluation.noise import auc
from accord.recommender.recommender import Recommender
from accord.report.tables import Table
from accord_lab.drawing import STYLES, drawn, legend_below, panels
from accord_lab.names import display_name, mean_sd, standard_deviation
from accord_lab.pair_scores import pair_scores
from accord_lab.paper.experiment import CLEAN, DECAS, NO_LABELS, NOISY, Experiment, FinishedRuns, Part, rated
from accord_lab.writing import Figure

KINDS = ("mf", "gmf", "neumf")  # of h and h′


def _cells(_: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [Cell(model, method, (("method.h", h),)) for model in models for method in methods for h in KINDS]


def _prepare(request: Request) -> Request:
    users, items, ratings = rated(request.data)
    judged = np.isin(ratings, CLEAN + NOISY)
    real = np.isin(ratings, CLEAN)

    def more(trained: Recommender) -> list[dict[str, Any]]:
        fields = []
        for run in pair_scores(trained, users, items):
            by_rating = {
                f"{rating:g}": float(run[ratings == rating].mean(dtype=float)) for rating in np.unique(ratings)
            }
            fields.append({"posterior": by_rating, "auc": auc(run[judged], real[judged])})
        return fields

    return replace(request, more=more)


def show(finished: FinishedRuns) -> list[Part]:
    return [_figure(finished), _table(finished)] if finished.lines else []


def _ratings(finished: FinishedRuns) -> list[str]:
    return list(next(iter(finished.lines.values()))[0]["posterior"])


def _values(finished: FinishedRuns, cell: Cell, rating: str) -> list[float]:
    return [line["posterior"][rating] for line in finished.lines[cell]]


def _table(finished: FinishedRuns) -> Table:
    _, items, ratings = rated(finished.data)
    counts = {rating: int((ratings == float(rating)).sum()) for rating in _ratings(finished)}
    rows: list[tuple[str | None, ...]] = [("training pairs", *(f"{count:,}" for count in counts.values()), None)]
    rising = 0
    for cell, lines in finished.lines.items():
        h = display_name(dict(cell.options)["method.h"])
        means = [np.mean(_values(finished, cell, rating)) for rating in counts]
        rising += bool(np.all(np.diff(means) > 0))
        values = [mean_sd(_values(finished, cell, rating)) for rating in counts]
        what = f"{display_name(cell.model)}, {display_name(cell.method or '')}, h: {h}"
        rows.append((what, *values, mean_sd([line["auc"] for line in lines], 3)))
    judged = np.isin(ratings, CLEAN + NOISY)
    popularity = auc(np.bincount(items)[items][judged], np.isin(ratings, CLEAN)[judged])
    notes = (
        f"The mean posterior rises with every rating in {rising} of {len(finished.lines)} rows.",
        "AUC: of telling training pairs rated 4 and 5 from those rated 1 and 2 by the posterior of the pair alone. "
        f"An item's popularity alone has {popularity:.3f}.",
    )
    columns = ("what", *(f"rating {rating}" for rating in counts), "AUC")
    return Table(f"{finished.data.name}: mean posterior by rating", columns, tuple(rows), notes)


def _figure(finished: FinishedRuns) -> Figure:
    name, ratings = finished.data.name, _ratings(finished)
    shown = list(dict.fromkeys((cell.model, cell.method or "") for cell in finished.lines))
    canvas, axes = panels(len(shown), height=3.4)
    for axis, (model, method) in zip(axes, shown, strict=True):
        for cell in (cell for cell in finished.lines if (cell.model, cell.method) == (model, method)):
            h = dict(cell.options)["method.h"]
            values = [_values(finished, cell, rating) for rating in ratings]
            shift = 0.1 * (KINDS.index(h) - 1)  # side by side, as they may coincide
            places = [float(rating) + shift for rating in ratings]
            axis.errorbar(
                places, [np.mean(v) for v in values], yerr=[standard_deviation(v) for v in values],
                capsize=3, label=f"h and h′: {display_name(h)}", **STYLES[KINDS.index(h)],
            )  # fmt: skip
        axis.set(
            title=f"{display_name(model)}, {display_name(method)}",
            xlabel="rating",
            ylabel="mean posterior (probability)",
        )
        axis.set_xticks([float(rating) for rating in ratings], ratings)
        axis.grid(axis="y")
    legend_below(canvas, axes)
    title = f"{display_name(name)}: mean posterior that a training pair is a real preference, by its rating"
    caption = "Mean over seeds ± one standard deviation; points of a rating are drawn side by side."
    return drawn(canvas, f"posterior-{name}.svg", title, caption)


POSTERIOR = Experiment(
    "Mean posterior by rating",
    _cells,
    show,
    _prepare,
    models=("gmf",),
    methods=DECAS,
    lacking=NO_LABELS,
    notes=(
        "The posterior that a training pair is a real preference is h′f / (h′f + h(1 − f)) for DeCA and f for DeCA(p). "
        "The paper has this as figures without their values in the source, and says that the probability grows with "
        "the rating, whatever h and h′ are.",
        "Assumed: the pairs are those of training, the target is GMF, and the settings are those of the overall table.",
    ),
)
