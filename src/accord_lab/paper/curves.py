"""Recall on the test along training, for Normal, DeCA and DeCA(p)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Request
from accord.data.csr import Floats
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.recommender.recommender import Recommender
from accord.report.tables import Table
from accord.training.run import RunSpec
from accord_lab.drawing import STYLES, drawn, legend_below, panels
from accord_lab.names import display_name, mean_sd, percent_sd
from accord_lab.paper.experiment import KS, Experiment, FinishedRuns, Part, deep
from accord_lab.paper.settings import paper_settings
from accord_lab.writing import Figure

METHODS = ("normal", "deca", "deca-p")
Curve = Floats  # [seeds, epochs]


def _cells(request: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [Cell(model, method, _epochs(request, model)) for model in models for method in methods]


def _epochs(request: Request, model: str) -> tuple[tuple[str, int], ...]:
    """The same number of epochs for all methods, the paper's largest, so that all curves end at the same epoch."""
    every = [paper_settings(request.data.name, model, method) for method in METHODS]
    epochs = [settings["epochs"] for settings in every if settings is not None]
    return (("train.epochs", max(epochs)),) if epochs and request.protocol == "published" else ()


class _CurveRecorder:
    """Ranks the test after every epoch. A stack that starts again, as smaller ones, starts its curves again."""

    def __init__(self, request: Request) -> None:
        self.data = request.data
        self.train = request.data.csr(request.data.train)
        self.ks = KS.get(request.data.name, (5, 20))
        self.curves: list[list[dict[str, float]]] = []

    def each_epoch(self, run: RunSpec, method: Method, epoch: int) -> None:
        if epoch == 1:
            self.curves = [[] for _ in run.config.seeds]
        rules, device = run.config.protocol, next(method.parameters()).device
        relevant = Relevant.of_test(self.data, rules)
        ranker = Ranker.of(
            method.target, method.score_all, len(run.config.seeds), relevant.seen, self.train, rules, device
        )
        for curve, means in zip(self.curves, evaluate(ranker, relevant, self.ks).mean(), strict=True):
            shown = {name: value for name, value in means.items() if name.partition("@")[0] in ("recall", "ndcg")}
            curve.append({"epoch": epoch, **shown})

    def more(self, trained: Recommender) -> list[dict[str, Any]]:
        return [{"curve": curve} for curve in self.curves]


def _prepare(request: Request) -> Request:
    recorder = _CurveRecorder(request)
    never_early = (*request.common, ("train.early_stop", False))
    return replace(request, common=never_early, each_epoch=recorder.each_epoch, more=recorder.more)


def curve(finished: FinishedRuns, cell: Cell) -> Curve:
    metric = deep(finished.data.name)
    return np.array([[point[metric] for point in line["curve"]] for line in finished.lines[cell]])


def show(finished: FinishedRuns) -> list[Part]:
    curves = {cell: curve(finished, cell) for cell in finished.lines}
    return [_figure(finished, curves), _ends(finished, curves), *_epoch_tables(finished, curves)] if curves else []


def _figure(finished: FinishedRuns, curves: dict[Cell, Curve]) -> Figure:
    name, metric = finished.data.name, deep(finished.data.name)
    models = list(dict.fromkeys(cell.model for cell in curves))
    canvas, axes = panels(len(models), width=6.0 if len(models) == 1 else 4.2, height=3.6)
    for model, axis in zip(models, axes, strict=True):
        for cell, values in curves.items():
            if cell.model != model:
                continue
            style = STYLES[METHODS.index(cell.method or "")]
            epochs, mean = np.arange(1, values.shape[1] + 1), values.mean(0)
            sd = values.std(0, ddof=1) if len(values) > 1 else 0.0
            every = max(1, len(epochs) // 10)
            axis.plot(epochs, mean, label=display_name(cell.method or ""), markevery=every, markersize=5, **style)
            axis.fill_between(epochs, mean - sd, mean + sd, color=style["color"], alpha=0.15, linewidth=0)
        axis.set(
            title=f"{display_name(name)}, {display_name(model)}", xlabel="epoch", ylabel=f"{metric} on the clean test"
        )
        axis.grid(axis="y")
        axis.xaxis.get_major_locator().set_params(integer=True)
    legend_below(canvas, axes)
    seeds = len(next(iter(curves.values())))
    caption = f"Mean over {seeds} seed(s)" + ("; the band is one standard deviation." if seeds > 1 else ".")
    return drawn(canvas, f"curves-{name}.svg", f"{display_name(name)}: {metric} along training", caption)


def _ends(finished: FinishedRuns, curves: dict[Cell, Curve]) -> Table:
    """Where each curve is highest and where it ends, which the paper writes about."""
    metric = deep(finished.data.name)
    rows = []
    for cell, values in curves.items():
        mean = values.mean(0)
        best = int(mean.argmax())
        fall = values[:, -1] / values[:, best] - 1
        top, end = mean_sd(values[:, best]), mean_sd(values[:, -1])
        rows.append((f"{cell.model} + {cell.method}", len(mean), top, best + 1, end, percent_sd(fall)))
    columns = ("what", "epochs", f"best {metric}", "at epoch", f"{metric} at the end", "from best to end")
    return Table(f"{finished.data.name}: the best of each mean curve, and its end", columns, tuple(rows))


def _epoch_tables(finished: FinishedRuns, curves: dict[Cell, Curve]) -> list[Table]:
    tables = []
    for model in dict.fromkeys(cell.model for cell in curves):
        of_model = {cell: values for cell, values in curves.items() if cell.model == model}
        longest = max(values.shape[1] for values in of_model.values())
        rows = tuple(
            (epoch + 1, *(mean_sd(v[:, epoch]) if epoch < v.shape[1] else None for v in of_model.values()))
            for epoch in range(longest)
        )
        columns = ("epoch", *(display_name(cell.method or "") for cell in of_model))
        name = finished.data.name
        tables.append(Table(f"{name}, {display_name(model)}: {deep(name)} by epoch", columns, rows))
    return tables


CURVES = Experiment(
    "Recall along training",
    _cells,
    show,
    _prepare,
    models=("gmf",),
    methods=METHODS,
    notes=(
        "The paper shows this for Modcloth, Adressa and Electronics as figures without their values in the source, "
        "and says that recall on the clean test falls late in normal training, while DeCA and DeCA(p) stay better and "
        "more stable. MovieLens is ours.",
        "Assumed: recall at the larger K of the overall table; no early stopping of the last stage; every method "
        "trains for as many epochs as the longest of the three in the overall table (the first stage of DeCA(p) too, "
        "which keeps its early stopping).",
    ),
)
