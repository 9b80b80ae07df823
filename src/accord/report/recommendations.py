"""What the runs recommend, compared with what was seen in training: a section of their report."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.data.csr import IntArray
from accord.report.page import Section
from accord.report.runs import SAMPLE, Entry, Runs, sample_users
from accord.report.tables import Cell, Table

SEEN = "seen in training"
EXAMPLES = 10


def recommendations(runs: Runs, section: Section) -> None:
    users = len(sample_users(runs.runs[0].recommender, SAMPLE))
    section.text(f"The top {runs.k} items of {users:,} users, compared with the items seen in training.")
    rows: list[tuple[Cell, ...]] = []
    if runs.comparable:
        seen = runs.runs[0].recommender.train.popularity()
        rows.append(_spread(SEEN, seen, seen))
    rows += [_spread(one.name, one.recommended, one.recommender.train.popularity()) for one in runs.entries]
    note = "Gini: 0 if all items are recommended equally often, near 1 if a few items take almost all places."
    columns = ("run", "items covered", "Gini", "share of the most popular tenth")
    section.table(Table("How recommendations are spread over the items", columns, tuple(rows), (note,)))
    for one in runs.runs:
        title = f"Items that {one.name} recommends most"
        section.table(_most(one, title), title)


def gini(counts: IntArray) -> float:
    """How unequal counts are: 0 if all are the same, near 1 if one item has all."""
    if not counts.sum():
        return 0.0
    ordered = np.sort(counts).astype(np.float64)
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))


def top_tenth(counts: IntArray, popularity: IntArray) -> float:
    """Share of the counts that the most popular tenth of the items has."""
    order = np.argsort(popularity, kind="stable")
    return float(counts[np.array_split(order, 10)[-1]].sum() / max(1, int(counts.sum())))


def _spread(name: str, counts: IntArray, popularity: IntArray) -> tuple[Cell, ...]:
    return name, f"{(counts > 0).mean():.1%}", f"{gini(counts):.3f}", f"{top_tenth(counts, popularity):.1%}"


def _most(one: Entry, title: str) -> Table:
    counts, recommender = one.recommended, one.recommender
    top = np.argsort(-counts, kind="stable")[:EXAMPLES]
    items = recommender.with_titles(pa.table({"item": recommender.items.take(top)}))
    seen, asked = recommender.train.popularity()[top], len(sample_users(recommender, SAMPLE))
    users = int((recommender.train.counts > 0).sum())
    columns: dict[str, list[Cell]] = {
        name: [None if value is None else str(value) for value in items.column(name).to_pylist()]
        for name in items.column_names
    }
    columns["recommended to"] = [f"{count / asked:.1%}" for count in counts[top]]
    columns["seen by, in training"] = [f"{count / users:.1%}" for count in seen]
    columns["interactions"] = [f"{count:,}" for count in seen]
    return Table.of(title, columns, "Shares of the users with a history.")
