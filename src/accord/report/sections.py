"""Sections of a report of runs: members and votes, recommendations and what they are like besides accurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from accord.data.attributes import Attributes, unit
from accord.errors import InputError
from accord.models.consensus import Member
from accord.recommender.recommender import Recommender
from accord.report.page import Section
from accord.report.runs import SAMPLE, Entry, Runs, sample_users
from accord.report.tables import Cell, Table

EXAMPLES = 10


def member_columns(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The column names of `member_rows`, which say where two columns are not of the same users or fit."""
    cold = metrics.get("groups", {}).get("cold", {}).get("users")
    valid = "valid ndcg@20" + (", warm users" if cold else "")
    test = "test ndcg@20" + (", all users" if cold else "")
    return "member", "vote", valid, test + (", fitted on train" if "before_validation" in metrics else ""), "options"


def member_rows(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float | None, float | None, str]]:
    """The members in `metrics.json` as rows, including those without a vote."""
    rows = []
    for entry in entries:
        name = Member(**{field: entry[field] for field in Member.model_fields if field in entry}).label
        shown = {key: value for key, value in entry.get("options", {}).items() if not key.startswith("train.")}
        options = ", ".join(f"{key.partition('.')[2]}={value}" for key, value in shown.items())
        weight = f"{entry['weight']:.2f}" if "weight" in entry else ""
        rows.append((name, weight, entry.get("valid_ndcg@20"), entry.get("test_ndcg@20"), options or "defaults"))
    return rows


def members(runs: Runs, section: Section) -> None:
    for one in runs.runs:
        metrics = one.recommender.metrics
        entries = metrics.get("members", ())
        voting, others = ([entry for entry in entries if ("weight" in entry) == votes] for votes in (True, False))
        if voting:
            title = f"Members of {one.name}" if len(runs.runs) > 1 else "Members"
            note = (
                "Scores are standardised for each user and added with these weights, which were not chosen on the test."
            )
            section.table(Table(title, member_columns(metrics), tuple(member_rows(voting)), (note,)))
        if others:
            title, note = f"Tried by {one.name}, without a vote", "These did not improve the validation metric."
            section.table(Table(title, member_columns(metrics), tuple(member_rows(others)), (note,)), title)
        for note in metrics.get("notes", ()) if entries else ():
            section.note(note)


def recommendations(runs: Runs, section: Section) -> None:
    users = len(sample_users(runs.runs[0].recommender, SAMPLE))
    section.text(f"The top {runs.k} items of {users:,} users.")
    for one in runs.entries:
        section.note(f"{one.name}, {described(beyond_accuracy(one.recommender, one.lists), runs.k)}.")
    for one in runs.runs:
        title = f"Items that {one.name} recommends most"
        section.table(_most(one, title), title)


def beyond_accuracy(recommender: Recommender, lists: pa.Table) -> dict[str, float]:
    """Of lists, a row for each user and item: the share of the items that are in any; their novelty, the mean of -log2
    of an item's share of the users, in bits; the mean popularity of what is recommended, and of what the log has; and,
    where items have attributes, the mean cosine of two items of a list by these."""
    train, items = recommender.train, recommender.items.rows(lists.column("item"))
    popularity, users = train.popularity(), max(1, int((train.counts > 0).sum()))
    result = {
        "coverage": len(np.unique(items)) / len(recommender.items),
        "novelty": float(-np.log2(np.maximum(popularity[items], 0.5) / users).mean()),
        "popularity": float(popularity[items].mean()),
        "popularity of the log": float(popularity @ popularity / max(1, popularity.sum())),
    }
    attributes = _attributes(recommender)
    if attributes is not None:
        owners = np.unique(recommender.users.rows(lists.column("user")), return_inverse=True)[1]
        rows = attributes[items]
        total = sp.csr_matrix((np.ones(len(items)), (owners, np.arange(len(items))))) @ rows
        sizes, same = np.bincount(owners), np.bincount(owners, np.asarray(rows.multiply(rows).sum(1)).ravel())
        alike = np.asarray(total.multiply(total).sum(1)).ravel() - same
        several = sizes > 1
        result["similarity"] = float((alike[several] / (sizes * (sizes - 1))[several]).mean()) if several.any() else 0.0
    return result


def described(figures: dict[str, float], k: int) -> str:
    """One sentence."""
    alike = f"; similarity within a list {figures['similarity']:.3f}" if "similarity" in figures else ""
    return (
        f"lists of {k}: coverage {figures['coverage']:.1%}, novelty {figures['novelty']:.2f} bits, popularity "
        f"{figures['popularity']:,.1f} interactions an item (the log: {figures['popularity of the log']:,.1f}){alike}"
    )


def _attributes(recommender: Recommender) -> Any:
    """[I, F] with rows of length 1, of all columns but the title; None: there are none that some items share."""
    info = recommender.item_info
    try:
        named = None if info is None else Attributes.of(info.select([n for n in info.column_names if n != "title"]))
    except InputError:
        return None
    return None if named is None else unit(named.matrix)


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


def new_items(runs: Runs, section: Section) -> None:
    for one in runs.runs:
        if (result := one.recommender.metrics.get("new_items")) is not None:
            rows = tuple((name, value) for name, value in result["recall@20"].items())
            note = f"Of {one.name}, trained again without these items, ranked among themselves by their attributes."
            title = f"{result['items']:,} items held out entirely, for {result['users']:,} users"
            section.table(Table(title, ("by", "recall@20"), rows, (note,)))
            others = "; ".join(f"{value:.4f} {name}" for name, value in result["others"].items())
            section.text(f"NDCG@20 of the other items: {others}." if others else "Nothing of other items was held out.")
