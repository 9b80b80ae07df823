"""The C₁ × C₂ × α grid of DeCA and DeCA(p), as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Request
from accord.data.csr import Floats
from accord.report.tables import Table
from accord_lab.drawing import drawn, panels
from accord_lab.names import display_name
from accord_lab.paper.experiment import DECAS, Experiment, FinishedRuns, Part, deep
from accord_lab.writing import Figure

C_GRID = (1.0, 10.0, 100.0, 1000.0)
ALPHA_GRID = (0.0, 0.5, 1.0)
Maps = dict[tuple[str, str], Floats]  # by model and method: [α, C₁, C₂]


def setting(alpha: float, c1: float, c2: float) -> tuple[tuple[str, float], ...]:
    return (("method.c1", c1), ("method.c2", c2), ("method.alpha", alpha))


def _cells(_: Request, models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    settings = product(ALPHA_GRID, C_GRID, C_GRID)
    return [Cell(model, method, setting(*one)) for model, method, one in product(models, methods, settings)]


def maps(finished: FinishedRuns) -> Maps:
    """Mean recall of every setting, for the models and methods whose grid is finished."""
    metric = deep(finished.data.name)
    by_method = {}
    for model, method in {(cell.model, cell.method or ""): None for cell in finished.lines}:
        cells = [[[Cell(model, method, setting(a, c1, c2)) for c2 in C_GRID] for c1 in C_GRID] for a in ALPHA_GRID]
        if all(cell in finished.lines for plane in cells for row in plane for cell in row):
            values = [[[finished.values(cell, metric).mean() for cell in row] for row in plane] for plane in cells]
            by_method[model, method] = np.array(values)
    return by_method


def show(finished: FinishedRuns) -> list[Part]:
    """A heat map and a table for each method and α; the best setting of each method is marked."""
    by_method = maps(finished)
    return [_figure(finished, by_method), *_tables(finished, by_method)] if by_method else []


def _tables(finished: FinishedRuns, by_method: Maps) -> list[Table]:
    tables = []
    for (model, method), values in by_method.items():
        best = np.unravel_index(values.argmax(), values.shape)
        for place, alpha in enumerate(ALPHA_GRID):
            marked = frozenset({(int(best[1]), int(best[2]) + 1)} if best[0] == place else set())
            rows: list[tuple[Any, ...]] = [
                (f"C₁ = {c1:g}", *map(float, values[place, row])) for row, c1 in enumerate(C_GRID)
            ]
            name = finished.data.name
            title = f"{name}, {display_name(model)}, {display_name(method)}, α = {alpha:g}: {deep(name)}"
            columns = ("", *(f"C₂ = {c2:g}" for c2 in C_GRID))
            tables.append(Table(title, columns, tuple(rows), (), marked))
    return tables


def _figure(finished: FinishedRuns, by_method: Maps) -> Figure:
    from matplotlib.patches import Rectangle

    name = finished.data.name
    canvas, axes = panels(len(ALPHA_GRID), len(by_method), 3.0, 2.9)
    captions = []
    for row, ((model, method), values) in enumerate(by_method.items()):
        low, high = values.min(), values.max()
        best = np.unravel_index(values.argmax(), values.shape)
        captions.append(
            f"{display_name(model)} with {display_name(method)} is best at C₁ = {C_GRID[best[1]]:g}, "
            f"C₂ = {C_GRID[best[2]]:g}, α = {ALPHA_GRID[best[0]]:g} ({high:.4f}), framed; "
            f"its worst setting has {low:.4f}."
        )
        in_row = axes[row * len(ALPHA_GRID) : (row + 1) * len(ALPHA_GRID)]
        for place, (alpha, axis) in enumerate(zip(ALPHA_GRID, in_row, strict=True)):
            axis.pcolormesh(values[place], cmap="cividis", vmin=low, vmax=high, edgecolors="white")
            for (c1, c2), value in np.ndenumerate(values[place]):
                dark = value <= low + 0.6 * (high - low)
                axis.text(
                    c2 + 0.5, c1 + 0.5, f"{value:.3f}", ha="center", va="center", color="white" if dark else "black"
                )
            if best[0] == place:
                frame: dict[str, Any] = {"edgecolor": "#d55e00", "facecolor": "none", "linewidth": 3}
                axis.add_patch(Rectangle((float(best[2]), float(best[1])), 1, 1, **frame))
            ticks = [f"{c:g}" for c in C_GRID]
            axis.set(title=f"{display_name(model)}, {display_name(method)}, α = {alpha:g}", xlabel="C₂", ylabel="C₁")
            axis.set_xticks(np.arange(4) + 0.5, ticks)
            axis.set_yticks(np.arange(4) + 0.5, ticks)
    title = f"{display_name(name)}: {deep(name)} over C₁, C₂ and α"
    canvas.suptitle(title)
    return drawn(canvas, f"grid-{name}.svg", title, " ".join(captions))


GRID = Experiment(
    "C₁ × C₂ × α",
    _cells,
    show,
    models=("gmf",),
    methods=DECAS,
    notes=(
        "The paper shows this as heat maps without their values in the source, so there is no value to compare ours "
        "with. It says that on Adressa the best C₁ (1000) is larger than the best C₂ (10 or 100). It does not say "
        "which α and metric its maps show: here are all α, with recall at its larger K, mean over seeds.",
    ),
)
