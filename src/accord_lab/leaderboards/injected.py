"""Noise of a given kind and rate, injected into training data: how well it is detected, and what it costs the ranking.

Built-in data has noise already; there the same models are also trained without it. `run` writes raw results and
`NAME.json`, which says which runs make up each cell; the page is written from these two files alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import ALWAYS, Line, Request, cells_of, compare, keys_of
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.io.files import write_json
from accord.report.tables import Table
from accord_lab import drawing
from accord_lab.comparing.tuning import tuned
from accord_lab.injection import KINDS
from accord_lab.leaderboards.leaderboard import KS, TRIALS, read_entries, read_page_files, row_name
from accord_lab.leaderboards.noise_conditions import BUILT_IN, CLEAN, Condition, check_noise, conditions
from accord_lab.methods import ALL_METHODS
from accord_lab.names import Floats, display_name, mean_sd, mean_sd_or_none, percent_sd
from accord_lab.writing import Figure, write_all

NAME = "injected"
MODELS = ("gmf", "lightgcn")
RATES = (0.1, 0.2, 0.3, 0.4)
SOLVED = "solved models"  # the panel of solved models besides popularity and EASE, which are in every panel
KIND_NAMES = {"uniform": "uniform", "popularity": "popularity-driven", "user": "user-dependent", BUILT_IN: BUILT_IN}


def run(
    datasets: Sequence[Dataset],
    request_for: Callable[[Dataset], Request],
    folder: Path,
    models: Sequence[str] = MODELS,
    methods: Sequence[str] = ALL_METHODS,
    trials: int = TRIALS,
    kinds: Sequence[str] = KINDS,
    rates: Sequence[float] = RATES,
) -> list[Table | Figure]:
    """Tune on each dataset as it is, train with and without noise, and write the page of everything in the folder."""
    check_noise(kinds, rates)
    entries, results = read_entries(folder, NAME), Results(folder, NAME)
    for data in datasets:
        request = replace(request_for(data), ks=KS, per_user=False)
        cells = cells_of(models, methods, {})
        if trials:
            cells = tuned(request, cells, trials, Results(folder, "tuning"))
        rows = []
        for one in conditions(data, kinds, rates):
            noisy = replace(request, data=one.data, more=one.more)
            request.say(f"{data.name}: " + (f"{one.kind} noise, {one.rate:.0%}" if one.rate else "without noise"))
            lines = compare(noisy, cells, results).by_key()
            _check(lines, [key for c in cells for key in keys_of(noisy, c)], one, results)
            where = {"kind": one.kind, "rate": round(one.rate, 4), "name": one.name}
            rows += [{**where, "model": c.model, "method": c.method, "runs": keys_of(noisy, c)} for c in cells]
        seeds = request.seeds if isinstance(request.seeds, int) else len(request.seeds)
        entries[data.name] = {"seeds": seeds, "trials": trials, "epochs": request.epochs, "rows": rows}
        write_json(folder / f"{NAME}.json", entries)
    return render(folder)


def _check(lines: Mapping[str, Line], keys: Sequence[str], condition: Condition, results: Results) -> None:
    """Runs without noise hold results only for the kinds and rates that they were ranked for."""
    for noisy in condition.noisy:
        if any(noisy.name not in lines[key]["injected"].get("ndcg@20", {}) for key in keys):
            raise InputError(
                f"{results.file} has runs without noise, but not their result for '{noisy.name}': they were made with "
                "other --kinds or --rates; give another --out."
            )


# --- the page

RowKey = tuple[str, str | None]  # model, method
Where = tuple[str, float]  # kind and rate of noise


@dataclass(frozen=True)
class NoiseRuns:
    """The runs of a dataset: by row, and by kind and rate of noise."""

    title: str
    rows: dict[RowKey, dict[Where, list[Line]]]
    names: dict[Where, str]  # of the conditions, in the lines of runs without noise

    @property
    def noises(self) -> list[Where]:
        return [where for where in next(iter(self.rows.values())) if where[0] != CLEAN]

    def noise(self, row: RowKey, where: Where, figure: str) -> Floats | None:
        values = [line["noise"].get(figure) for line in self.rows[row][where]]
        return None if None in values else np.array(values)

    def ndcg(self, row: RowKey, where: Where) -> Floats:
        return np.array([line["metrics"]["ndcg@20"] for line in self.rows[row][where]])

    def loss(self, row: RowKey, where: Where) -> Floats:
        """NDCG@20 with the noise, relative to the same seed trained without it and ranking the same items."""
        clean = np.array([line["injected"]["ndcg@20"][self.names[where]] for line in self.rows[row][CLEAN, 0.0]])
        return np.asarray(self.ndcg(row, where) / clean - 1)


def render(folder: Path) -> list[Table | Figure]:
    entries, lines = read_page_files(folder, NAME)
    parts = [part for dataset, runs in read_runs(folder).items() for part in _parts(dataset, runs)]
    devices = {lines[key]["device"] for entry in entries.values() for row in entry["rows"] for key in row["runs"]}
    title = "Injected noise: how well it is detected, and what it costs"
    write_all(folder, NAME, parts, _intro(entries, devices), title)
    return parts


def read_runs(folder: Path) -> dict[str, NoiseRuns]:
    """The runs of every dataset that the folder holds."""
    entries, lines = read_page_files(folder, NAME)
    every = {}
    for dataset, entry in entries.items():
        rows: dict[RowKey, dict[Where, list[Line]]] = {}
        for row in entry["rows"]:
            by_noise = rows.setdefault((row["model"], row["method"]), {})
            by_noise[row["kind"], row["rate"]] = [lines[key] for key in row["runs"]]
        names = {(row["kind"], row["rate"]): row["name"] for row in entry["rows"]}
        every[dataset] = NoiseRuns(display_name(dataset), rows, names)
    return every


def _intro(entries: Mapping[str, Any], devices: set[str]) -> list[str]:
    budgets = [
        f"{display_name(dataset)}: {entry['seeds']} seeds, "
        + (f"{entry['trials']} trials per row on the data as it is" if entry["trials"] else "defaults, not tuned")
        + ("" if entry["epochs"] is None else f", at most {entry['epochs']} epochs")
        for dataset, entry in entries.items()
    ]
    return [
        "Protocol corrected. Noise is injected into the training pairs until it is the stated share of them: items "
        "drawn uniformly or by popularity, users by activity, or (user-dependent) by activity and a random propensity; "
        "never a pair that is in the data. It is drawn once for each kind and rate. Validation and test "
        "stay as they are. The pairs of the data itself count as real here, whatever their rating. On built-in data, "
        "which says what its noise is, the model without noise is trained on the real pairs alone.",
        f"{'; '.join(budgets)}. Run on {', '.join(sorted(devices))}.",
    ]


def _parts(dataset: str, runs: NoiseRuns) -> list[Table | Figure]:
    parts: list[Table | Figure] = [
        _table(
            runs,
            "detecting the noise, AUC",
            lambda row, where: mean_sd_or_none(runs.noise(row, where, "auc"), 3),
            "AUC of telling noise from the other training pairs by the posterior (models without a method: by the "
            "score); 0.5 is chance, less is worse than chance.",
        ),
        _table(
            runs,
            "detecting the noise, average precision",
            lambda row, where: mean_sd_or_none(runs.noise(row, where, "average_precision"), 3),
            "Average precision of detecting the noise; chance is the share of noise itself.",
        ),
        _table(
            runs,
            "what the noise costs",
            lambda row, where: percent_sd(runs.loss(row, where)),
            "NDCG@20 on the clean test, relative to the same model, method and seed trained without the noise: mean ± "
            "standard deviation over seeds. Both rank the same items: the noise is removed from both lists, like seen "
            "items. Otherwise noise would help, since none of it is in the test and there are fewer items to rank.",
            ("NDCG@20 without noise", lambda row: mean_sd(runs.ndcg(row, (CLEAN, 0.0)))),
        ),
    ]
    if len({rate for _, rate in runs.noises}) > 1:
        file, panels = f"{NAME}-{dataset}", _panels(runs, lambda row, where: runs.noise(row, where, "auc"))
        title = f"{runs.title}: how well the injected noise is detected"
        parts.append(drawing.by_rate(f"{file}-auc.svg", title, "AUC", panels, 0.5, "The grey line is chance."))
        title, panels = f"{runs.title}: what the injected noise costs", _panels(runs, lambda *at: 100 * runs.loss(*at))
        caption = "Relative to the same model and method trained without the noise."
        parts.append(drawing.by_rate(f"{file}-loss.svg", title, "change of NDCG@20, %", panels, 0.0, caption))
    return parts


def _table(
    runs: NoiseRuns,
    title: str,
    cell: Callable[[RowKey, Where], str | None],
    note: str,
    first: tuple[str, Callable[[RowKey], str]] | None = None,
) -> Table:
    """A row for each model and method, a column for each kind and rate of noise, perhaps after another column."""
    heads = [f"{KIND_NAMES.get(kind, kind)} {rate:.0%}" for kind, rate in runs.noises]
    body = []
    for row in runs.rows:
        start = [row_name({"model": row[0], "method": row[1]}), *([first[1](row)] if first else [])]
        body.append((*start, *(cell(row, where) for where in runs.noises)))
    return Table(f"{runs.title}: {title}", ("what", *([first[0]] if first else []), *heads), tuple(body), (note,))


def _panels(runs: NoiseRuns, figure: Callable[[RowKey, Where], Floats | None]) -> drawing.RatePanels:
    """Curves over the rate, by model and kind: popularity and EASE in every panel, other solved models in one."""
    panels: drawing.RatePanels = {}
    learned = {model: [row for row in runs.rows if row[0] == model] for model, method in runs.rows if method}
    always = [row for row in runs.rows if row[0] in ALWAYS]
    solved = [row for row in runs.rows if not row[1] and row not in always]
    for model, rows in {**learned, **({SOLVED: solved} if solved or not learned else {})}.items():
        for kind in dict.fromkeys(kind for kind, _ in runs.noises):
            curves = panels.setdefault((model, KIND_NAMES.get(kind, kind)), {})
            for row in [*rows, *always]:
                points = {where[1]: figure(row, where) for where in runs.noises if where[0] == kind}
                curves[row[1] or row[0]] = {r: float(v.mean()) for r, v in points.items() if v is not None}
    return panels
