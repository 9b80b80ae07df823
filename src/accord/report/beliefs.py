"""How real the runs hold the training interactions to be: a section of their report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.csr import IntArray
from accord.data.interactions import Interactions
from accord.report import charts
from accord.report.page import Chart, Section
from accord.report.runs import Entry, Floats, Runs
from accord.report.tables import Cell, Table

BINS = 20
MOST_VALUES = 10  # more distinct values are grouped into fifths
MOST_CHARTS = 6  # of one kind, one per run
EXAMPLES = 10
COUNTS = ("interactions of the user", "of the item")
COLUMNS = ("run", "mean probability", "below 0.5", "noise detection (AUC)", "average precision")

Judge = tuple[Entry, Floats]


def beliefs(runs: Runs, section: Section) -> None:
    section.text(
        "The probability that a training interaction was a real preference, according to the method that was trained "
        "on it and never saw its value. accord audit uses models that were not trained on the interactions they judge."
    )
    for one in runs.runs:
        if len(one.interactions) < len(one.recommender.trained_on):
            which = f" of {one.name}" if len(runs.runs) > 1 else ""
            total = len(one.recommender.trained_on)
            section.text(f"This is a random sample of {len(one.interactions):,} of the {total:,} interactions{which}.")
    judges = [(one, one.beliefs) for one in runs.runs if one.beliefs is not None]
    values = Values.of(runs.runs[0].interactions) if runs.comparable else None
    section.table(_overview(runs, judges))
    drawn = [_histogram(one, scores, values) for one, scores in judges[:MOST_CHARTS]]
    if values is not None and len(values.names) > 2:
        drawn.insert(0, _by_value(judges, values))
    section.charts(drawn)
    for one, scores in judges:
        order = np.argsort(scores, kind="stable")
        number = min(EXAMPLES, len(order) // 2)
        for word, rows in (("least", order[:number]), ("most", order[::-1][:number])):
            title = f"The interactions that {one.name} trusts {word}"
            section.table(_examples(title, one, scores, rows), title)


@dataclass(frozen=True)
class Values:
    """Interactions grouped by their value, lowest first."""

    column: str  # its name in the source
    names: list[str]
    group: IntArray  # of each interaction; -1 without a value

    @classmethod
    def of(cls, interactions: Interactions) -> Values | None:
        if not interactions.has_value:
            return None
        values = interactions.column("value").astype(np.float64)
        finite = np.isfinite(values)
        edges = np.unique(values[finite])
        if len(edges) < 2:
            return None
        names = [f"{value:g}" for value in edges]
        if len(edges) > MOST_VALUES:
            edges = np.unique(np.quantile(values[finite], np.linspace(0, 1, 6)))
            names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
        group = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(names) - 1)
        return cls(interactions.source_name("value"), names, np.where(finite, group, -1))


def _overview(runs: Runs, judges: Sequence[Judge]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (one.name, f"{scores.mean():.3f}", f"{(scores < 0.5).mean():.1%}", *_detection(one.detection))
        for one, scores in judges
    ]
    popularity = runs.runs[0].detection_by_popularity() if runs.comparable else None
    if popularity is None:
        return Table("Probability of being real", COLUMNS[:3], tuple(row[:3] for row in rows))
    rows.append(("popularity of the item", None, None, *_detection(popularity)))
    note = (
        "AUC: how often a real interaction gets a higher probability than a noisy one; 0.5 is chance. Average "
        f"precision: of detecting the noisy ones, which are {popularity['noise_rate']:.0%} of those with a label. "
        "Values 0 and 1 are labels; of ratings up to 5, 1 and 2 count as noise, 4 and 5 as real."
    )
    return Table("Probability of being real, and how well it detects noise", COLUMNS, tuple(rows), (note,))


def _detection(result: dict[str, float] | None) -> tuple[Cell, Cell]:
    return (None, None) if result is None else (f"{result['auc']:.3f}", f"{result['average_precision']:.3f}")


def _by_value(judges: Sequence[Judge], values: Values) -> Chart:
    masks = [values.group == number for number in range(len(values.names))]
    means: dict[str, list[Cell]] = {one.name: [float(scores[mask].mean()) for mask in masks] for one, scores in judges}
    rows = [
        {"run": name, "group": value, "mean": mean}
        for name, column in means.items()
        for value, mean in zip(values.names, column, strict=True)
    ]
    title, (name, first) = f"Mean probability of being real by {values.column}", next(iter(means.items()))
    counts = [f"{mask.sum():,}" for mask in masks]
    return Chart(
        title,
        charts.groups(rows, "mean", values.column, values.names, list(means)),
        f"{name}: {first[0]:.3f} at {values.names[0]}, {first[-1]:.3f} at {values.names[-1]}.",
        Table.of(title, {values.column: values.names, "interactions": counts, **means}),
    )


def _histogram(one: Entry, scores: Floats, values: Values | None) -> Chart:
    parts = {"all": scores}
    if values is not None and len(values.names) == 2:
        parts = {f"{values.column} {name}": scores[values.group == n] for n, name in enumerate(values.names)}
    edges = np.linspace(0, 1, BINS + 1).tolist()
    shares = {name: np.histogram(part, BINS, (0, 1))[0] / max(1, len(part)) for name, part in parts.items()}
    rows = [
        {"what": name, "left": left, "right": right, "share": float(share)}
        for name, heights in shares.items()
        for (left, right), share in zip(pairwise(edges), heights, strict=True)
    ]
    columns: dict[str, list[Cell]] = {"probability": [f"{left:.2f} to {right:.2f}" for left, right in pairwise(edges)]}
    columns |= {name: [f"{share:.1%}" for share in heights] for name, heights in shares.items()}
    summary = "; ".join(f"{name}: mean {part.mean():.3f}" for name, part in parts.items())
    table = Table.of(f"Share of interactions by probability, {one.name}", columns)
    return Chart(f"Probabilities of {one.name}", charts.probabilities(rows, list(parts)), f"{summary}.", table)


def _examples(title: str, one: Entry, scores: Floats, rows: IntArray) -> Table:
    """Interactions with their titles and values, if there are any, and the counts of their user and item."""
    recommender, shown = one.recommender, one.interactions.take(rows)
    users, items = shown.rows_in(recommender.users, recommender.items)
    table = shown.table.select([name for name in ("user", "item", "value") if name in shown.names])
    numbers = (recommender.train.counts[users], recommender.train.popularity()[items], scores[rows])
    for name, column in zip((*COUNTS, "probability"), numbers, strict=True):
        table = table.append_column(name, pa.array(column))
    table = recommender.with_titles(table)
    columns = {name: [_cell(name, value) for value in table.column(name).to_pylist()] for name in table.column_names}
    return Table.of(title, columns)


def _cell(name: str, value: Any) -> Cell:
    if value is None or name == "probability":
        return None if value is None else f"{value:.4f}"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if name in COUNTS else str(value)
