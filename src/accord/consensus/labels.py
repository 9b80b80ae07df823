"""What labels add to a consensus: members that know how real each interaction is, and the quality of items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.consensus.members import MemberTraining
from accord.models.consensus import Member
from accord.posteriors.estimate import Estimate, estimate

CLEANED = ("ease", "item-knn", "graph-filter", "ials", "mf", "cdae", "lightgcn")  # gain by knowing what is real
BY_P_REAL = ("ials", "mf", "cdae", "lightgcn")  # of these, those that are trained by it; the others have an option


def learn_labels(training: MemberTraining) -> Estimate:
    """Estimate how real each interaction is, and let the members that are trained next know it, and be judged by it."""
    train, held_out, data = training.train, training.held_out, training.data
    result = estimate(train, train.columns.get("label"), data.labelled_outside, held_out, data.item_info)
    training.notes.append(result.why)
    if result.used:
        size = len(train.items)
        training.learn(result.believed[:size], result.believed[size:][: len(held_out.items)])
        training.num_labels = size if "only_real" in result.figures else result.figures["labels"]
    return result.take(np.arange(len(train.items)))


def clean_members(found: Sequence[Member]) -> list[Member]:
    """The best of each family that labels can make clean, knowing how real each interaction is, and the quality of
    items. `found`: the best come first."""
    best = {member.model: member for member in reversed(found)}
    cleaned = []
    for member in (best[name] for name in CLEANED if name in best):
        how = {"by_p_real": True} if member.model in BY_P_REAL else {"options": {**member.options, "model.clean": True}}
        cleaned.append(member.model_copy(update={"weight": None, **how}))
    return [*cleaned, Member(model="quality")]
