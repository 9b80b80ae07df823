"""What labels add to a vote: members that know how real each interaction is, and the quality of items."""

from __future__ import annotations

from collections.abc import Sequence

from accord.consensus.members import MemberTraining
from accord.models.consensus import Member
from accord.posteriors.estimate import Estimate, estimate

CLEANED = ("ease", "item-knn", "graph-filter", "ials", "mf")  # families that gain by knowing what is real
BY_P_REAL = ("ials", "mf")  # of these, those that are trained by it; the others have an option
CLEAN, OF_VOTE = 0.1, 0.5  # each is added with weight 0.1 + 0.5 x the votes of its model
QUALITY = 0.2  # the weight of an item's quality


def learn_labels(training: MemberTraining) -> Estimate:
    """Estimate how real each training interaction is, and let the members that are trained next know it."""
    result = estimate(training.train, training.train.columns.get("label"), training.data.labelled_outside)
    training.notes.append(result.why)
    if result.used:
        training.p_real = result.believed[: len(training.train.items)]
    return result


def clean_members(candidates: Sequence[Member]) -> list[Member]:
    """The best of each family that labels can make clean, knowing how real each interaction is, and the quality of
    items. Votes say what a family is worth on this log; but where most of it is noise, they mislead."""
    by_vote = sorted(candidates, key=lambda member: -(member.weight or 0))
    best = {member.model: member for member in reversed(by_vote)}  # of a model the one with the most votes
    votes = {name: sum(one.weight or 0 for one in candidates if one.model == name) for name in best}
    clean = [_cleaned(best[name], CLEAN + OF_VOTE * votes[name]) for name in CLEANED if name in best]
    return [*clean, Member(model="quality", weight=QUALITY, added=True)]


def _cleaned(member: Member, weight: float) -> Member:
    update = {"added": True, "weight": round(weight, 4)}
    if member.model in BY_P_REAL:
        return member.model_copy(update={**update, "by_p_real": True})
    return member.model_copy(update={**update, "options": {**member.options, "model.clean": True}})


def trusted(member: Member, trust: float) -> Member:
    """A member with its weight times the trust in labels, if labels added it; no weight where the trust is 0."""
    return member.model_copy(update={"weight": (member.weight or 0) * trust or None}) if member.added else member
