"""How the runs were trained: a section of their report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accord.report import charts
from accord.report.page import Chart, Section
from accord.report.runs import Entry, Runs
from accord.report.tables import Table

MOST_CHARTS = 6  # of one kind, one per run


def training(runs: Runs, section: Section) -> None:
    learned = [one for one in runs.runs if one.recommender.history]
    if any(entry["stage"] == "1/2" for one in learned for entry in one.recommender.history):
        section.text("Stage 1/2 is a model that the method trains first, stage 2/2 the one that recommends.")
    validation = _rows(learned, "valid")
    curves: list[tuple[Chart, int]] = []
    if validation:
        rules = {one.recommender.run.config.protocol.early_stop for one in learned}
        metric = {"best-ndcg": "ndcg@20", "loss-rise": "loss"}[rules.pop()] if len(rules) == 1 else "metric"
        curves.append(_curve(f"Validation {metric}", f"validation {metric}", validation))
    for one in learned[:MOST_CHARTS]:
        curves.append(_curve(f"Training loss of {one.name}", "training loss", _rows([one], "loss")))
    section.charts([chart for chart, epochs in curves if epochs > 1])
    for chart, epochs in curves:
        if epochs == 1:  # a single point needs no chart
            section.note(f"{chart.title}: {chart.summary}")


def points(history: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The `loss` or `valid` after each epoch that has it, over the seeds: stage, epoch, mean, low, high."""
    rows = []
    for entry in history:
        values = [value for value in entry.get(key) or [] if value is not None]
        if values:
            ends = {"mean": float(np.mean(values)), "low": min(values), "high": max(values)}
            rows.append({"stage": entry["stage"], "epoch": entry["epoch"], **ends})
    return rows


def _rows(entries: Sequence[Entry], key: str) -> list[dict[str, Any]]:
    return [
        {"run": one.name if point["stage"] == "1/1" else f"{one.name} {point['stage']}", **point}
        for one in entries
        for point in points(one.recommender.history, key)
    ]


def _curve(title: str, metric: str, rows: Sequence[dict[str, Any]]) -> tuple[Chart, int]:
    """The chart, and its number of epochs."""
    last = {row["run"]: row for row in rows}
    after = (f"{row['epoch']} epoch{'s' if row['epoch'] > 1 else ''}" for row in last.values())
    ends = zip(last.items(), after, strict=True)
    summary = "; ".join(f"{name}: {row['mean']:.4f} after {epochs}" for (name, row), epochs in ends)
    columns = {"run": "run", "epoch": "epoch", "mean over seeds": "mean", "lowest": "low", "highest": "high"}
    table = Table.of(title, {name: [row[key] for row in rows] for name, key in columns.items()})
    chart = Chart(title, charts.learning(rows, metric, list(last)), f"{summary}.", table)
    return chart, len({row["epoch"] for row in rows})
