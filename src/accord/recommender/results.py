"""What metrics.json says of a run besides its figures: the data, and the members of a consensus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from accord.consensus.members import Candidate
from accord.data.interactions import Dataset
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
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


def of_candidates(candidates: Sequence[Candidate], ranker: Ranker, relevant: Relevant) -> list[dict[str, Any]]:
    """The candidates of a consensus, each with its NDCG@20 on the test: of a sample of its users where these are very
    many."""
    entries, relevant = [], relevant.sampled()
    for one in candidates:
        alone = replace(ranker, score_all=partial(as_run, one.method))
        ndcg = evaluate(alone, relevant, [20]).per_user["ndcg@20"]
        entries.append(one.entry | ({"test_ndcg@20": float(ndcg.mean())} if len(relevant.users) else {}))
    return entries
