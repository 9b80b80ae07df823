"""Runs the paper's tables and figures on real data, and writes pages with the paper's values next to ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from accord.comparing.compare import Request, compare
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord_lab.paper.accuracy_tables import ABLATION, OVERALL, SELECTION
from accord_lab.paper.agreement import AGREEMENT
from accord_lab.paper.curves import CURVES
from accord_lab.paper.experiment import Experiment, Part, finished_runs
from accord_lab.paper.grid import GRID
from accord_lab.paper.posterior import POSTERIOR
from accord_lab.writing import write_all

EXPERIMENTS = {
    "overall": OVERALL,
    "ablation": ABLATION,
    "selection": SELECTION,
    "curves": CURVES,
    "agreement": AGREEMENT,
    "posterior": POSTERIOR,
    "grid": GRID,
}
UNAVAILABLE = {
    "electronics": "its training file was not available, only validation and test; the code is tested on a small file "
    "in the same format"
}


def reproduce(
    name: str,
    datasets: Sequence[Dataset],
    models: Sequence[str] | None,
    methods: Sequence[str] | None,
    request: Callable[[Dataset], Request],
    folder: Path,
    render_only: bool = False,
    others: Sequence[Dataset] = (),
) -> list[Part]:
    """Run a table or figure of the paper on some datasets, and write its page from the raw results.
    The page shows everything that is finished, on `others` too, so that it can be run piece by piece; the tables and
    figures returned are those of `datasets`."""
    experiment, results = EXPERIMENTS[name], Results(folder, name)
    chosen = experiment.choose("model", models), experiment.choose("method", methods)
    requests = {data.name: experiment.prepare(request(data)) for data in (*datasets, *others)}
    if not render_only:
        for data in datasets:
            compare(requests[data.name], experiment.cells(requests[data.name], *chosen), results)
    every = experiment.choose("model", [*experiment.models, *chosen[0]]), experiment.methods
    by_key = results.by_key()
    parts: dict[str, list[Part]] = {}
    missing: list[str] = []
    for dataset in sorted(requests, key=lambda name: (*experiment.datasets, name).index(name)):
        request_of = requests[dataset]
        finished = finished_runs(request_of, experiment.cells(request_of, *every), by_key)
        if finished.lines:
            parts[dataset] = experiment.show(finished)
        elif dataset in {data.name for data in datasets}:
            raise InputError(
                f"{results.file} has no finished runs on {dataset} with these settings; run without --render-only."
            )
        if finished.lines and finished.missing:
            left, done = len(finished.missing), len(finished.lines)
            missing.append(f"{dataset}: {left} of {left + done} not run yet")
    devices = sorted({line["device"] for line in by_key.values()})
    intro = _intro(experiment, next(iter(requests.values())), list(parts), missing, devices)
    write_all(folder, name, [part for of_dataset in parts.values() for part in of_dataset], intro, experiment.title)
    return [part for data in datasets for part in parts[data.name]]


def _intro(
    experiment: Experiment, request: Request, shown: Sequence[str], missing: Sequence[str], devices: Sequence[str]
) -> list[str]:
    """How the page was made, what it assumes and what is missing."""
    seeds = request.seeds if isinstance(request.seeds, int) else len(request.seeds)
    epochs = "" if request.epochs is None else f", {request.epochs} epoch(s) instead of the paper's"
    lacking = {name: UNAVAILABLE.get(name, "not run yet") for name in experiment.datasets if name not in shown}
    lacking |= experiment.lacking
    absent = [f"{name} ({why})" for name, why in lacking.items()] + list(missing)
    return [
        f"Protocol {request.protocol}, {seeds} seed(s){epochs}; run on {', '.join(devices)}.",
        *experiment.notes,
        *([f"Missing: {'; '.join(absent)}."] if absent else []),
    ]
