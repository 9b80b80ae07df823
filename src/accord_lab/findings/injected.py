"""What injected noise shows: how well it is detected, and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accord_lab.findings.raw import table
from accord_lab.leaderboards.injected import KIND_NAMES, NoiseRuns, RowKey, Where, read_runs
from accord_lab.leaderboards.leaderboard import row_name
from accord_lab.leaderboards.noise_conditions import CLEAN
from accord_lab.names import display_name, percent_span, span, standard_deviation

SHOWN = ("normal", "deca", "deca-p")


def detected(folder: Path) -> str:
    """The AUC of each kind of noise over its rates: of the best learned row, Normal of GMF, and models alone."""
    rows = []
    for runs in read_runs(folder / "corrected").values():
        for kind in dict.fromkeys(kind for kind, _ in runs.noises):
            by_row = {row: [_auc(runs, row, where) for where in runs.noises if where[0] == kind] for row in runs.rows}
            best, alone = (
                max((row for row in by_row if bool(row[1]) is learned), key=lambda row: sum(by_row[row]))
                for learned in (True, False)
            )
            names = [row_name({"model": model, "method": method}) for model, method in (best, alone)]
            figures = [f"{name}, {span(by_row[row], 2)}" for name, row in zip(names, (best, alone), strict=True)]
            others = [span(by_row[row], 2) for row in (("gmf", "normal"), ("popularity", None), ("ease", None))]
            rates = sorted({rate for name, rate in runs.noises if name == kind})
            share = " to ".join(f"{rate:.0%}" for rate in dict.fromkeys((rates[0], rates[-1])))
            rows.append((runs.title, f"{KIND_NAMES[kind]}, {share}", *figures, *others))
    return table(("data", "noise", "best learned row", "best solved model", "GMF + Normal", "popularity", "EASE"), rows)


def _auc(runs: NoiseRuns, row: RowKey, where: Where) -> float:
    values = runs.noise(row, where, "auc")
    assert values is not None
    return float(values.mean())


def costs(folder: Path) -> str:
    """What the most noise costs NDCG@20, over the kinds of noise, and how often less of it costs more than a seed."""
    runs = read_runs(folder / "corrected")["ml-100k"]
    most = max(rate for _, rate in runs.noises)
    rows: list[tuple[str | None, ...]] = []
    for model in dict.fromkeys(model for model, _ in runs.rows):
        by_method = {method: _losses(runs, (name, method), most) for name, method in runs.rows if name == model}
        cells = [percent_span(by_method[one]) if one in by_method else None for one in (None, *SHOWN)]
        normal = by_method.get("normal")
        less = None
        if normal is not None:
            others = [losses for method, losses in by_method.items() if method != "normal"]
            less = f"{sum(np.mean(losses) > np.mean(normal) for losses in others)} of {len(others)}"
        rows.append((display_name(model), *cells, less))
    cells_over = [
        abs(float(runs.loss(row, where).mean())) > standard_deviation(clean) / float(clean.mean())
        for row in runs.rows
        if row[1]
        for clean in [runs.ndcg(row, (CLEAN, 0.0))]
        for where in runs.noises
        if where[1] <= 0.2
    ]
    heads = ("model", "alone", *(display_name(method) for method in SHOWN), "methods that lose less than Normal")
    return (
        f"{runs.title}, {most:.0%} of noise: change of NDCG@20 over the kinds of noise. Noise of up to 20% changes it "
        f"by more than one\nstandard deviation between seeds in {sum(cells_over)} of {len(cells_over)} cells.\n\n"
        + table(heads, rows)
    )


def _losses(runs: NoiseRuns, row: RowKey, rate: float) -> list[float]:
    return [float(runs.loss(row, where).mean()) for where in runs.noises if where[1] == rate]
