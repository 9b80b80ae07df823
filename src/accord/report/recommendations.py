"""What the runs recommend, compared with what was seen: a section of a run's report."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.data.csr import IntArray
from accord.report import charts, measure
from accord.report.measure import Runs, Subject
from accord.report.page import Chart, Section
from accord.report.tables import Cell, Table

SEEN = "seen in training"


def recommended(runs: Runs, section: Section) -> None:
    users = runs.runs[0].recommended.users
    section.text(f"The first {runs.k} items for each of {users:,} users, compared with what was seen in training.")
    if runs.comparable:
        section.chart(_tenths(runs))
    rows: list[tuple[Cell, ...]] = []
    if runs.comparable:
        seen = runs.runs[0].recommender.train.popularity()
        rows.append(_row(SEEN, seen, seen))
    for one in runs.subjects:
        rows.append(_row(one.name, one.recommended.counts, one.recommender.train.popularity()))
    note = "Gini: 0 if all items are recommended equally often, near 1 if a few items take all places."
    columns = ("what", "items covered", "Gini", "share of the most popular tenth")
    section.table(Table("How the recommendations are spread over the items", columns, tuple(rows), (note,)))
    for one in runs.runs:
        title = f"What {one.name} recommends most"
        section.table(_most(one, title), title)


def _row(name: str, counts: IntArray, popularity: IntArray) -> tuple[Cell, ...]:
    top = measure.by_tenth(counts, popularity)[-1]
    return name, f"{(counts > 0).mean():.1%}", f"{measure.gini(counts):.3f}", f"{top:.1%}"


def _tenths(runs: Runs) -> Chart:
    popularity = runs.runs[0].recommender.train.popularity()
    shares = {SEEN: measure.by_tenth(popularity, popularity)}
    shares |= {one.name: measure.by_tenth(one.recommended.counts, popularity) for one in runs.subjects}
    rows = [
        {"what": name, "tenth": number, "share": share}
        for name, own in shares.items()
        for number, share in enumerate(own, 1)
    ]
    cells = tuple((str(n + 1), *(f"{own[n]:.1%}" for own in shares.values())) for n in range(measure.TENTHS))
    summary = ", ".join(f"{name} {own[-1]:.0%}" for name, own in shares.items())
    return Chart(
        "Recommendations by popularity of the items",
        charts.popularity(rows, list(shares), [SEEN, *runs.beside[:1]]),
        f"Share of the most popular tenth of the items: {summary}.",
        Table("Share of each tenth of the items, the least popular first", ("tenth", *shares), cells),
    )


def _most(one: Subject, title: str) -> Table:
    found, recommender = one.recommended, one.recommender
    order = np.argsort(-found.counts, kind="stable")[: measure.EXAMPLES]
    table = recommender.with_titles(pa.table({"item": recommender.items.take(order)}))
    seen = recommender.train.popularity()
    rows = tuple(
        (*(None if text is None else str(text) for text in known.values()), f"{found.counts[n]:,}", f"{seen[n]:,}")
        for known, n in zip(table.to_pylist(), order, strict=True)
    )
    return Table(title, (*table.column_names, f"in lists of {found.users:,} users", "interactions in training"), rows)
