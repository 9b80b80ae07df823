"""The paper's accuracy tables: overall comparison, ablation and model selection, the paper's values next to ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from accord.comparing.compare import ALWAYS, Cell, Request
from accord.report.tables import Table
from accord_lab.names import METHODS, MODELS, mean_sd, standard_deviation
from accord_lab.paper.experiment import DECAS, KS, Experiment, FinishedRuns, Part
from accord_lab.paper.settings import figures
from accord_lab.writing import only_columns

Reference = tuple[float, float]  # mean and standard deviation (0 where none is given)
RELEASED = ("normal", "deca", "deca-p")  # methods that the paper's authors published code for
Published = Callable[[str, Cell, str], Reference | None]  # dataset, cell, metric


def _overall(_: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [Cell(model, method) for model in models for method in methods] + [Cell(model, None) for model in ALWAYS]


def published_overall(dataset: str, cell: Cell, metric: str) -> Reference | None:
    methods = figures("published")["overall"].get(dataset, {}).get(MODELS.get(cell.model), {})
    finished = methods.get(METHODS.get(cell.method or ""), {}).get(metric)
    return None if finished is None else (finished["mean"], finished["std"])


def _ablation(_: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    parts = ("dp", "dn", "both")
    return [Cell(model, method, (("method.only", part),)) for model in models for method in methods for part in parts]


def published_ablation(dataset: str, cell: Cell, metric: str) -> Reference | None:
    only = dict(cell.options)["method.only"]
    label = METHODS[cell.method or ""] + ("" if only == "both" else f"-{only.upper()}")
    finished = figures("published")["ablation_modcloth"][MODELS[cell.model]][label].get(metric)
    return None if finished is None or dataset != "modcloth" else (finished, 0.0)


def _selection(_: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    kinds = ("mf", "gmf", "neumf")
    return [Cell(model, "normal") for model in models] + [
        Cell(model, method, (("method.h", h),)) for model in models for method in methods for h in kinds
    ]


def published_selection(dataset: str, cell: Cell, metric: str) -> Reference | None:
    h = dict(cell.options).get("method.h")
    # the appendix heads the first columns of MovieLens @5, but repeats the @3 figures of the overall table there
    headed = metric.replace("@3", "@5")
    for row in figures("published")["model_selection"].get(dataset, []) if cell.model == "gmf" else []:
        if row["method"] == METHODS[cell.method or ""] and (row["h"] or "").lower() == (h or ""):
            return row[headed], 0.0
    return None


def measured(dataset: str, cell: Cell, metric: str) -> Reference | None:
    """What the released code gives today for a cell of the overall table."""
    if cell.options:
        return None
    methods = figures("measured")["figures"].get(dataset, {}).get(MODELS.get(cell.model), {})
    values = methods.get(METHODS.get(cell.method or ""), {}).get("published", {}).get(metric)
    return None if not values else (float(np.mean(values)), standard_deviation(values))


def is_close(ours: float, references: Sequence[Reference | None]) -> bool:
    """Whether a value is within 5% or two standard deviations of one of the references."""
    given = [reference for reference in references if reference is not None]
    return not given or any(abs(ours - mean) <= max(0.05 * mean, 2 * sd) for mean, sd in given)


def table(finished: FinishedRuns, title: str, published: Published) -> list[Part]:
    """For every cell the paper's value, the released code's, ours and the difference; values far off are marked."""
    name, same_rules = finished.data.name, finished.request.protocol == "published"
    metrics = [f"{kind}@{k}" for kind in ("recall", "ndcg") for k in KS.get(name, (5, 20))]
    parts = ("paper", "released", "ours", "difference")
    columns = ["what", *(f"{metric} {part}" for metric in metrics for part in parts)]
    rows: list[tuple[Any, ...]] = []
    marked: set[tuple[int, int]] = set()
    good: dict[bool, list[bool]] = {True: [], False: []}  # by whether code was released for the method
    for cell in finished.lines:
        row: list[Any] = [cell.name]
        for metric in metrics:
            values = finished.values(cell, metric)
            references = (published(name, cell, metric), measured(name, cell, metric) if same_rules else None)
            row += [_shown(references[0], 3), _shown(references[1], 4), mean_sd(values)]
            first = next((reference for reference in references if reference is not None), None)
            row.append(f"{values.mean() / first[0] - 1:+.1%}" if first and first[0] else None)
            if first is not None and same_rules:
                good[cell.method in RELEASED].append(is_close(float(values.mean()), references))
                if not good[cell.method in RELEASED][-1]:
                    marked |= {(len(rows), len(row) - 1), (len(rows), len(row) - 2)}
        rows.append(tuple(row))
    notes: tuple[str, ...] = ()
    if every := good[True] + good[False]:
        released = f" Of Normal, DeCA and DeCA(p), for which code was released: {sum(good[True])} of {len(good[True])}."
        notes = (
            f"{sum(every)} of {len(every)} values lie within 5% or two standard deviations of the paper's or the "
            f"released code's; the others are marked.{released if all(good.values()) else ''}",
        )
    elif not same_rules:
        notes = ("The paper's values were made under another protocol: differences are expected, and not judged.",)
    whole = Table(f"{title}: {name}", tuple(columns), tuple(rows), notes, frozenset(marked))
    filled = {column for column, *cells in zip(columns, *rows, strict=True) if any(cell is not None for cell in cells)}
    return [only_columns(whole, filled.__contains__)]


def _shown(reference: Reference | None, digits: int) -> str | None:
    if reference is None:
        return None
    mean, sd = reference
    return f"{mean:.{digits}f}" + (f" ± {sd:.{digits}f}" if sd else "")


OVERALL = Experiment(
    "Overall comparison",
    _overall,
    partial(table, title="Overall comparison", published=published_overall),
    notes=(
        "No code was released for WBPR, T-CE and Ensemble: they train with the settings of Normal, WBPR draws its "
        "negatives by the rule that lands on most of the paper's values, T-CE drops by the schedule of the T-CE paper, "
        "and Ensemble averages two runs with different seeds.",
    ),
)
ABLATION = Experiment(
    "Denoising only positives (DP), only negatives (DN), or both",
    _ablation,
    partial(table, title="DP, DN or both", published=published_ablation),
    methods=DECAS,
    notes=("The paper has this only for Modcloth; the other datasets are ours.",),
)
SELECTION = Experiment(
    "Which model h and h′ are",
    _selection,
    partial(table, title="Which model h and h′ are", published=published_selection),
    models=("gmf",),
    methods=DECAS,
    notes=(
        "The paper heads the first columns of MovieLens @5, but repeats the @3 figures of its overall table there.",
    ),
)
