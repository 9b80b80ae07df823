"""The paper's tables from real data, its value beside ours: overall, ablation, selection and grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord import paper
from accord.compare import ALWAYS, Cell, Request, compare, keys_of
from accord.data.interactions import Dataset
from accord.errors import InputError, unknown
from accord.render import Table, write_all
from accord.results import Results

C_GRID = (1.0, 10.0, 100.0, 1000.0)
ALPHA_GRID = (0.0, 0.5, 1.0)
KS = {"ml-100k": (3, 20), "modcloth": (5, 20), "adressa": (5, 20), "electronics": (10, 50)}
Reference = tuple[float, float]  # mean and standard deviation (0 where none is given)


@dataclass(frozen=True)
class Experiment:
    """A table of the paper: what it runs, on what, and where its own figures stand."""

    title: str
    cells: Callable[[Sequence[str], Sequence[str]], list[Cell]]
    published: Callable[[str, Cell, str], Reference | None]
    datasets: tuple[str, ...] = ("ml-100k", "modcloth", "adressa", "electronics")
    models: tuple[str, ...] = tuple(paper.MODELS)
    methods: tuple[str, ...] = tuple(paper.METHODS)
    notes: tuple[str, ...] = ()


def _overall(models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [Cell(model, method) for model in models for method in methods] + [Cell(model, None) for model in ALWAYS]


def _published_overall(dataset: str, cell: Cell, metric: str) -> Reference | None:
    methods = paper.figures("published")["overall"].get(dataset, {}).get(paper.MODELS.get(cell.model), {})
    found = methods.get(paper.METHODS.get(cell.method or ""), {}).get(metric)
    return None if found is None else (found["mean"], found["std"])


def _ablation(models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    parts = ("dp", "dn", "both")
    return [Cell(model, method, (("method.only", part),)) for model in models for method in methods for part in parts]


def _published_ablation(dataset: str, cell: Cell, metric: str) -> Reference | None:
    only = dict(cell.options)["method.only"]
    label = paper.METHODS[cell.method or ""] + ("" if only == "both" else f"-{only.upper()}")
    found = paper.figures("published")["ablation_modcloth"][paper.MODELS[cell.model]][label].get(metric)
    return None if found is None or dataset != "modcloth" else (found, 0.0)


def _selection(models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    kinds = ("mf", "gmf", "neumf")
    return [Cell(model, "normal") for model in models] + [
        Cell(model, method, (("method.h", h),)) for model in models for method in methods for h in kinds
    ]


def _published_selection(dataset: str, cell: Cell, metric: str) -> Reference | None:
    h = dict(cell.options).get("method.h")
    # the appendix heads MovieLens' first columns @5, but repeats the @3 figures of the overall table there
    headed = metric.replace("@3", "@5")
    for row in paper.figures("published")["model_selection"].get(dataset, []) if cell.model == "gmf" else []:
        if row["method"] == paper.METHODS[cell.method or ""] and (row["h"] or "").lower() == (h or ""):
            return row[headed], 0.0
    return None


def _grid(models: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    return [
        Cell(model, method, (("method.c1", c1), ("method.c2", c2), ("method.alpha", alpha)))
        for model in models
        for method in methods
        for alpha in ALPHA_GRID
        for c1 in C_GRID
        for c2 in C_GRID
    ]


DECAS = ("deca", "deca-p")
EXPERIMENTS = {
    "overall": Experiment(
        "Overall comparison",
        _overall,
        _published_overall,
        notes=(
            "No code was released for WBPR, T-CE and Ensemble: they train with the settings of Normal, T-CE drops by "
            "the schedule of its own paper, and Ensemble averages two runs with different seeds.",
        ),
    ),
    "ablation": Experiment(
        "Denoising only positives (DP), only negatives (DN), or both",
        _ablation,
        _published_ablation,
        datasets=("modcloth",),
        methods=DECAS,
    ),
    "selection": Experiment(
        "Which model h and h′ are", _selection, _published_selection, models=("gmf",), methods=DECAS,
        notes=("The paper heads MovieLens' first columns @5, but repeats the @3 figures of its overall table there.",),
    ),
    "grid": Experiment("C₁ × C₂ × α", _grid, lambda *_: None, models=("gmf",), methods=DECAS),
}  # fmt: skip


def choose(name: str, what: str, wanted: Sequence[str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """The datasets, models or methods asked for; an experiment knows which it has."""
    for one in wanted or ():
        if one not in usual:
            raise unknown(f"{what} for '{name}'", one, usual)
    return tuple(wanted or usual)


def measured(dataset: str, cell: Cell, metric: str) -> Reference | None:
    """What the released code gives today for a cell of the overall table."""
    if cell.options:
        return None
    methods = paper.figures("measured")["figures"].get(dataset, {}).get(paper.MODELS.get(cell.model), {})
    values = methods.get(paper.METHODS.get(cell.method or ""), {}).get("published", {}).get(metric)
    return None if not values else (float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


def lands(ours: float, references: Sequence[Reference | None]) -> bool:
    """Whether a value is within 5% or two standard deviations of one of the references."""
    known = [reference for reference in references if reference is not None]
    return not known or any(abs(ours - mean) <= max(0.05 * mean, 2 * sd) for mean, sd in known)


def table(name: str, request: Request, cells: Sequence[Cell], results: Results) -> Table:
    """Of every cell the paper's value, that of the released code, ours and the difference; what is off is marked."""
    experiment, data = EXPERIMENTS[name], request.data
    lines = results.by_key()
    metrics = [f"{kind}@{k}" for kind in ("recall", "ndcg") for k in KS.get(data.name, (5, 20))]
    columns = [
        "what",
        *(f"{metric} {part}" for metric in metrics for part in ("paper", "released", "ours", "difference")),
    ]
    rows: list[tuple[Any, ...]] = []
    marked: set[tuple[int, int]] = set()
    judged = landed = 0
    for cell in cells:
        keys = keys_of(request, cell)
        if not set(keys) <= set(lines):
            raise InputError(f"{results.file} has no finished runs of '{cell.name}' on {data.name}; run it first.")
        row: list[Any] = [cell.name]
        for metric in metrics:
            values = np.array([lines[key]["metrics"][metric] for key in keys])
            references = (experiment.published(data.name, cell, metric), measured(data.name, cell, metric))
            ours, sd = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
            row += [_shown(references[0], 3), _shown(references[1], 4), f"{ours:.4f} ± {sd:.4f}"]
            first = next((reference for reference in references if reference is not None), None)
            row.append(None if first is None else f"{ours / first[0] - 1:+.1%}" if first[0] else None)
            if first is not None:
                judged, good = judged + 1, lands(ours, references)
                landed += good
                if not good:
                    marked |= {(len(rows), len(row) - 1), (len(rows), len(row) - 2)}
        rows.append(tuple(row))
    said = (
        f"{landed} of {judged} values land within 5% or two standard deviations of the paper's or the released code's."
    )
    notes = (*((said, "Those that do not are marked.") if judged else ()), *experiment.notes)
    return Table(f"{experiment.title}: {data.name}", tuple(columns), tuple(rows), notes, frozenset(marked))


def _shown(reference: Reference | None, digits: int) -> str | None:
    if reference is None:
        return None
    mean, sd = reference
    return f"{mean:.{digits}f}" + (f" ± {sd:.{digits}f}" if sd else "")


def heat(request: Request, cells: Sequence[Cell], results: Results) -> list[Table]:
    """The grid as C₁ × C₂ tables of recall@20, one a method and α; the best cell of each method is marked."""
    lines = results.by_key()
    value = {
        cell: float(np.mean([lines[key]["metrics"]["recall@20"] for key in keys_of(request, cell)])) for cell in cells
    }
    best = {
        method: max((c for c in cells if c.method == method), key=value.__getitem__)
        for method in DECAS
        if any(c.method == method for c in cells)
    }
    tables = []
    for method, alpha in {(cell.method or "", dict(cell.options)["method.alpha"]): None for cell in cells}:
        own = [cell for cell in cells if cell.method == method and dict(cell.options)["method.alpha"] == alpha]
        rows: list[tuple[Any, ...]] = []
        marked: set[tuple[int, int]] = set()
        for c1 in C_GRID:
            row = [cell for cell in own if dict(cell.options)["method.c1"] == c1]
            marked |= {(len(rows), column + 1) for column, cell in enumerate(row) if cell == best[method]}
            rows.append((f"C₁ = {c1:g}", *(value[cell] for cell in row)))
        title = f"{request.data.name}, {paper.METHODS[method]}, α = {alpha:g}: recall@20"
        tables.append(Table(title, ("", *(f"C₂ = {c2:g}" for c2 in C_GRID)), tuple(rows), (), frozenset(marked)))
    return tables


def reproduce(
    name: str,
    datasets: Sequence[Dataset],
    models: Sequence[str] | None,
    methods: Sequence[str] | None,
    request: Callable[[Dataset], Request],
    folder: Path,
    render_only: bool = False,
) -> list[Table]:
    """Run a table of the paper on some datasets, and write its page from the raw results."""
    experiment = EXPERIMENTS[name]
    cells = experiment.cells(
        choose(name, "model", models, experiment.models), choose(name, "method", methods, experiment.methods)
    )
    results = Results(folder, name)
    tables: list[Table] = []
    for data in datasets:
        asked = request(data)
        if not render_only:
            compare(asked, cells, results)
        tables += heat(asked, cells, results) if name == "grid" else [table(name, asked, cells, results)]
    devices = sorted({line["device"] for line in results.read()})
    intro = [
        f"Protocol {request(datasets[0]).protocol}, {request(datasets[0]).seeds} seed(s); run on {', '.join(devices)}."
    ]
    write_all(folder, name, tables, intro, experiment.title)
    return tables
