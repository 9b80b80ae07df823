"""How the runs were trained, and how real they consider the interactions: sections of a run's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accord.report import charts, measure
from accord.report.measure import Floats, Runs, Subject, Values
from accord.report.page import Chart, Section
from accord.report.tables import Cell, Table

MOST_CHARTS = 6  # of one kind, one for each run
Judge = tuple[Subject, Floats]


def learning(runs: Runs, section: Section) -> None:
    learned = [one for one in runs.runs if one.recommender.history]
    if any(entry["stage"] == "1/2" for one in learned for entry in one.recommender.history):
        section.text("Stage 1/2 is a model that the method trains first, stage 2/2 the one that recommends.")
    watched = [(one, measure.curves(one.recommender.history, "valid")) for one in learned]
    charts: list[tuple[Chart, int]] = []
    if any(points for _, points in watched):
        rules = {one.recommender.run.config.protocol.early_stop for one in learned}
        figure = {"best-ndcg": "ndcg@20", "loss-rise": "loss"}[rules.pop()] if len(rules) == 1 else "figure"
        charts.append(_curve(f"Validation {figure}", f"validation {figure}", watched))
    for one in learned[:MOST_CHARTS]:
        points = measure.curves(one.recommender.history, "loss")
        charts.append(_curve(f"Training loss of {one.name}", "training loss", [(one, points)]))
    section.charts([one for one, epochs in charts if epochs > 1])
    for chart, epochs in charts:
        if epochs == 1:  # a dot is no curve
            section.note(f"{chart.title}: {chart.summary}")


def _curve(title: str, figure: str, found: Sequence[tuple[Subject, list[measure.Point]]]) -> tuple[Chart, int]:
    """The curve, and of how many epochs it is."""
    rows: list[dict[str, Any]] = []
    for one, points in found:
        for point in points:
            what = one.name if point.stage == "1/1" else f"{one.name} {point.stage}"
            rows.append({"what": what, **vars(point)})
    names = list(dict.fromkeys(row["what"] for row in rows))
    last = {row["what"]: row for row in rows}
    summary = "; ".join(f"{name}: {row['mean']:.4f} after {_epochs(row['epoch'])}" for name, row in last.items())
    cells = tuple((row["what"], row["epoch"], row["mean"], row["low"], row["high"]) for row in rows)
    table = Table(title, ("what", "epoch", "mean over seeds", "least", "most"), cells)
    chart = Chart(title, charts.learning(rows, figure, names), f"{summary}.", table)
    return chart, len({row["epoch"] for row in rows})


def _epochs(number: int) -> str:
    return f"{number} epoch{'s' if number > 1 else ''}"


def probabilities(runs: Runs, section: Section) -> None:
    section.text(
        "How probable it is that a training interaction was a real preference, according to the method that was "
        "trained on it and never saw its value. accord audit has each judged by models that were not trained on it."
    )
    for one in runs.runs:
        if len(one.judged) < len(one.recommender.trained_on):
            which = f" of {one.name}" if len(runs.runs) > 1 else ""
            section.text(
                f"This is a random sample of {len(one.judged):,} of the {len(one.recommender.trained_on):,}{which}."
            )
    judges = [(one, one.beliefs) for one in runs.runs if one.beliefs is not None]
    values = Values.of(runs.runs[0].judged) if runs.comparable else None
    section.table(_how_much(runs, judges))
    drawn = [_histogram(one, beliefs, values) for one, beliefs in judges[:MOST_CHARTS]]
    if values is not None and len(values.names) > 2:
        drawn.insert(0, _by_value(judges, values))
    section.charts(drawn)
    for one, _ in judges:
        for word, table in zip(("least", "most"), measure.extremes(one), strict=True):
            title = f"The interactions that {one.name} trusts {word}"
            rows = tuple(tuple(_cell(name, value) for name, value in row.items()) for row in table.to_pylist())
            columns = tuple("probability" if name == "belief" else name for name in table.column_names)
            section.table(Table(title, columns, rows), title)


def _how_much(runs: Runs, judges: Sequence[Judge]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one, beliefs in judges:
        shares = (f"{beliefs.mean():.3f}", f"{(beliefs < 0.5).mean():.1%}")
        rows.append((one.name, *shares, *_detected(one.found_noise)))
    marks = measure.found_by_popularity(runs.runs[0]) if runs.comparable else None
    columns = ("what", "mean probability", "below one half", "noise found (AUC)", "average precision")
    if marks is None:
        return Table("Probability of being real", columns[:3], tuple(row[:3] for row in rows))
    rows.append(("popularity of the item", None, None, *_detected(marks)))
    note = (
        "AUC: how often a real interaction gets a higher probability than a noisy one; 0.5 is chance. Average "
        f"precision: of finding the noisy ones, which are {marks['noise_rate']:.0%} of those with a label. Values 0 "
        "and 1 are labels; of ratings up to 5, 1 and 2 count as noise, 4 and 5 as real."
    )
    return Table("Probability of being real, and how well noise is found", columns, tuple(rows), (note,))


def _detected(noise: dict[str, float] | None) -> tuple[Cell, Cell]:
    return (None, None) if noise is None else (f"{noise['auc']:.3f}", f"{noise['average_precision']:.3f}")


def _by_value(judges: Sequence[Judge], values: Values) -> Chart:
    means = {
        (one.name, value): float(beliefs[values.group == number].mean())
        for one, beliefs in judges
        for number, value in enumerate(values.names)
    }
    names = [one.name for one, _ in judges]
    cells: tuple[tuple[Cell, ...], ...] = tuple(
        (value, f"{(values.group == number).sum():,}", *(means[name, value] for name in names))
        for number, value in enumerate(values.names)
    )
    title = f"Mean probability of being real by {values.column}"
    rows = [{"run": name, "value": value, "mean": mean} for (name, value), mean in means.items()]
    low, high = (f"{means[names[0], value]:.3f} at {value}" for value in (values.names[0], values.names[-1]))
    return Chart(
        title,
        charts.by_value(rows, values.column, values.names, names),
        f"{names[0]}: {low}, {high}.",
        Table(title, (values.column, "interactions", *names), cells),
    )


def _histogram(one: Subject, beliefs: Floats, values: Values | None) -> Chart:
    parts = {"all": beliefs}
    if values is not None and len(values.names) == 2:
        parts = {f"{values.column} {name}": beliefs[values.group == n] for n, name in enumerate(values.names)}
    edges = np.linspace(0, 1, measure.BINS + 1)
    shares = {name: measure.histogram(part) for name, part in parts.items()}
    rows = [
        {"what": name, "left": float(left), "right": float(right), "share": float(share)}
        for name, heights in shares.items()
        for left, right, share in zip(edges[:-1], edges[1:], heights, strict=True)
    ]
    cells = tuple(
        (f"{edges[n]:.2f} to {edges[n + 1]:.2f}", *(f"{heights[n]:.1%}" for heights in shares.values()))
        for n in range(measure.BINS)
    )
    summary = "; ".join(f"{name}: mean {part.mean():.3f}" for name, part in parts.items())
    table = Table(f"Share of interactions by probability, {one.name}", ("probability", *shares), cells)
    return Chart(f"Probabilities of {one.name}", charts.probabilities(rows, list(parts)), f"{summary}.", table)


def _cell(name: str, value: Any) -> Cell:
    if value is None:
        return None
    if name == "belief":
        return f"{value:.4f}"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if name in measure.COUNTED else str(value)
