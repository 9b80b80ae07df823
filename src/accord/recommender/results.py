"""What metrics.json says of a run besides its figures: the data, and the members of a consensus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from accord.data.interactions import Dataset
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.methods.consensus import FromMembers
from accord.models.consensus import as_run
from accord.training.run import RunSpec
from accord.version import __version__


def of_run(run: RunSpec, data: Dataset, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What was run on what; `sizes` are those of validation and test as the protocol has them."""
    config = run.config
    return {
        "accord": __version__,
        "dataset": {"name": data.name, **data.counts(), **sizes, "notes": list(data.notes)},
        "model": config.model,
        "method": config.method or "none",
        "protocol": config.protocol.model_dump(),
    }


def of_members(method: Method, ranker: Ranker, relevant: Relevant) -> dict[str, Any]:
    """The members of a consensus, each with its NDCG@20 on the test, and how they were found; those that got no vote
    are given up. Where the test has very many users, the members are judged by a sample of them."""
    if not isinstance(method, FromMembers):
        return {}
    entries, relevant = [], relevant.sampled()
    for one in method.candidates:
        alone = replace(ranker, score_all=partial(as_run, one.method))
        found = evaluate(alone, relevant, [20]).per_user["ndcg@20"]
        entries.append(one.entry | ({"test_ndcg@20": float(found.mean())} if len(relevant.users) else {}))
    method.candidates = []
    return {"members": entries, **method.record()}
