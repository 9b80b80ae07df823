"""What the runs recommend, compared with what was seen: a section of a run's report."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.data.csr import IntArray
from accord.report import measure
from accord.report.measure import Runs, Subject
from accord.report.page import Section
from accord.report.tables import Cell, Table

SEEN = "seen in training"


def recommended(runs: Runs, section: Section) -> None:
    users = runs.runs[0].recommended.users
    section.text(f"The first {runs.k} items for each of {users:,} users, compared with what was seen in training.")
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


def _most(one: Subject, title: str) -> Table:
    found, recommender = one.recommended, one.recommender
    order = np.argsort(-found.counts, kind="stable")[: measure.EXAMPLES]
    table = recommender.with_titles(pa.table({"item": recommender.items.take(order)}))
    seen, users = recommender.train.popularity(), int((recommender.train.counts > 0).sum())
    rows = tuple(
        (
            *(None if text is None else str(text) for text in known.values()),
            f"{found.counts[n] / found.users:.1%}",
            f"{seen[n] / users:.1%}",
            f"{seen[n]:,}",
        )
        for known, n in zip(table.to_pylist(), order, strict=True)
    )
    columns = (*table.column_names, "recommended to", "had by, in training", "interactions")
    return Table(title, columns, rows, ("Shares of the users who have a history.",))
