"""Who votes in a consensus, and how far they agree: a section of a run's report, and a table of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from accord.models.consensus import Member
from accord.recommender.agreement import AGREES
from accord.recommender.recommender import Recommender
from accord.report.measure import Runs
from accord.report.page import Section
from accord.report.tables import Cell, Table

ASKED = 500  # users: enough for shares to the percent


def member_columns(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The heads of the columns of `member_rows`."""
    test = "test ndcg@20" + (", fitted on train" if "before_validation" in metrics else "")
    return "member", "vote", "valid ndcg@20", test, "options"


def member_rows(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float | None, float | None, str]]:
    """What `metrics.json` says of the members of a consensus, those too that got no vote, as rows."""
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
        if not metrics.get("members"):
            continue
        which = f" of {one.name}" if len(runs.runs) > 1 else ""
        entries = metrics["members"]
        voting = [entry for entry in entries if "weight" in entry]
        note = "Scores are standardised within a user and added up by vote. No vote was chosen by the test."
        section.table(_members(f"The members{which}", metrics, voting, note))
        shares = agreement(one.recommender, runs.k)
        if len(shares) > 2:
            section.text(_agreed(shares, runs.k))
        if len(voting) < len(entries):
            others = [entry for entry in entries if "weight" not in entry]
            title = f"What {one.name} tried and did not need"
            section.table(
                _members(title, metrics, others, "Trained, and of no help to the others on the validation."), title
            )
        for said in metrics.get("notes", ()):
            section.note(said)


def _members(title: str, metrics: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], note: str) -> Table:
    rows: list[tuple[Cell, ...]] = [tuple(row) for row in member_rows(entries)]
    return Table(title, member_columns(metrics), tuple(rows), (note,))


def _agreed(shares: npt.NDArray[np.float64], k: int) -> str:
    total = len(shares) - 1
    first = f"{shares[total]:.0%} are among the first {AGREES} of all {total} members"
    between = [f"{shares[number]:.0%} of {number}" for number in range(total - 1, 0, -1)]
    listed = ", ".join([first, *between])
    return f"How far they agree: of the {k} items that a user is recommended, {listed} and {shares[0]:.0%} of none."


def agreement(recommender: Recommender, k: int) -> npt.NDArray[np.float64]:
    """Of what is recommended, the share that 0, 1, … members agree to: one more than there are members."""
    warm = np.flatnonzero(recommender.train.counts)
    if len(warm) > ASKED:
        warm = np.sort(np.random.default_rng(0).choice(warm, ASKED, replace=False))
    opinions = recommender.opinions
    counts = np.zeros(len(opinions.labels) + 1, dtype=np.int64)
    for block, items, values in recommender.lists.ranker.rank(warm, k):
        users = torch.from_numpy(block).to(items.device)
        agree = opinions.count(opinions.places(users, items[0].long().clamp(min=0)))[values[0].isfinite()]
        counts += np.bincount(agree.cpu().numpy(), minlength=len(counts))
    shares: npt.NDArray[np.float64] = counts / max(1, counts.sum())
    return shares
