"""The members of a consensus and their votes: a section of its report, and a table of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from accord.models.consensus import Member
from accord.recommender.agreement import AGREES
from accord.recommender.recommender import Recommender
from accord.report.page import Section
from accord.report.runs import Floats, Runs, sample_users
from accord.report.tables import Table

ASKED = 500  # users: enough for shares to the percent


def member_columns(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The column names of `member_rows`."""
    test = "test ndcg@20" + (", fitted on train" if "before_validation" in metrics else "")
    return "member", "vote", "valid ndcg@20", test, "options"


def member_rows(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float | None, float | None, str]]:
    """The members in `metrics.json` as rows, including those without a vote."""
    rows = []
    for entry in entries:
        name = Member(**{field: entry[field] for field in Member.model_fields if field in entry}).label
        options = ", ".join(f"{key.partition('.')[2]}={value}" for key, value in entry.get("options", {}).items())
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
            shares = agreement(one.recommender, runs.k)
            if len(shares) > 2:
                section.text(_agreement_text(shares, runs.k))
        if others:
            title, note = f"Tried by {one.name}, without a vote", "These did not improve the validation metric."
            section.table(Table(title, member_columns(metrics), tuple(member_rows(others)), (note,)), title)
        for note in metrics.get("notes", ()) if entries else ():
            section.note(note)


def _agreement_text(shares: Floats, k: int) -> str:
    total = len(shares) - 1
    counts = [f"{shares[number]:.0%} of {number}" for number in range(total - 1, 0, -1)]
    listed = ", ".join([f"{shares[total]:.0%} are in the top {AGREES} of all {total} members", *counts])
    return f"Agreement: of the {k} items recommended to a user, {listed} and {shares[0]:.0%} of none."


def agreement(recommender: Recommender, k: int) -> Floats:
    """The shares of the recommendations that 0, 1, … members agree with: one more than there are members."""
    opinions = recommender.opinions
    counts = np.zeros(len(opinions.labels) + 1, dtype=np.int64)
    for block, items, values in recommender.lists.ranker.rank(sample_users(recommender, ASKED), k):
        users = torch.from_numpy(block).to(items.device)
        agree = opinions.count(opinions.places(users, items[0].long().clamp(min=0)))[values[0].isfinite()]
        counts += np.bincount(agree.cpu().numpy(), minlength=len(counts))
    shares: Floats = counts / max(1, counts.sum())
    return shares
