"""The search of `auto`: the families that a budget allows, the best of each, and with labels what they add."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from accord.consensus.families import PAYS, Family, Search, plan_search
from accord.consensus.members import Candidate, MemberTraining
from accord.models.base import Shape
from accord.models.consensus import vote

FAR_OVER = 3.0  # times the budget, and a minute: then the clock ends the search


def search_members(training: MemberTraining, budget: float, recency: bool) -> tuple[list[Candidate], dict[str, Any]]:
    """The best candidates of each family within a budget, and a record of what was tried.

    `recency`: whether to try histories that fade, where the log has times.
    """
    began = time.monotonic()
    fades = recency and training.has_times and training.relevant is not None
    plan = plan_search(Shape.of(training.train), budget, has_times=fades)
    training.notes[:0] = plan.left_out
    trials = plan.trials if training.relevant is not None else 1  # with nothing to choose by
    best: list[Candidate] = []
    tried: list[dict[str, Any]] = []
    with training.in_background([member for family in plan.families for member in family.trials(trials)]):
        for number, family in enumerate(plan.families):
            if best and time.monotonic() - began > FAR_OVER * budget + 60:
                rest = ", ".join(one.model for one in plan.families[number:])
                training.notes.append(
                    f"the search took far longer than its budget of {budget:g} s and ended before {rest}; "
                    "another run may find more."
                )
                break
            best += _best_of(training, plan, family, number, trials, fades, budget, tried)
    if training.relevant is None and len(best) > 1:  # votes are equal then, and popularity is no personal taste
        best = [one for one in best if one.member.model != "popularity"]
    record = {"budget": budget, "trials": plan.trials, "tried": tried, "cost_seconds": round(plan.seconds, 1)}
    return best, record


def _best_of(
    training: MemberTraining, plan: Search, family: Family, number: int, trials: int, fades: bool, budget: float,
    tried: list[dict[str, Any]],
) -> list[Candidate]:  # fmt: skip
    """The best of a family, and next to it the same with a history that fades, where that pays."""
    best: Candidate | None = None
    members, total = family.trials(trials), len(plan.families) * trials
    for trial, member in enumerate(members):
        sentence = plan.sentence(budget) if number == trial == 0 else None
        training.report(f"{member.label} {trial + 1}/{len(members)}", number * trials + trial, total, sentence)
        candidate = training.candidate(member)
        if candidate is None and trial == 0:
            break  # what fails with its defaults fails with all options
        if candidate is None:
            continue
        tried.append(candidate.entry)
        if best is None or (candidate.ndcg or 0) > (best.ndcg or 0):
            best = candidate
    if best is None:
        return []
    chosen = [best]
    for member in family.faded(best.member) if fades else ():
        what = f"{member.label}, recency {member.options['model.recency']}"
        training.report(what, number * trials + len(members), total)
        faded = training.evaluated(member, training.rescored(member, best.method))
        tried.append(faded.entry)
        if (faded.ndcg or 0) > PAYS * (chosen[-1].ndcg or 0):
            chosen[1:] = [faded]
    return chosen


def voters(candidates: Sequence[Candidate]) -> list[Callable[[Tensor], Tensor]]:
    """What each candidate says of all items for users [B], [B, I], as votes are chosen.

    One whose history fades votes with the one before it, whose history does not: the validation shows what comes next,
    and long-term taste would have no voice.
    """
    alone = [partial(vote, one.method) for one in candidates]
    return [
        partial(_mean, alone[number - 1], say) if _has_partner(candidates, number) else say
        for number, say in enumerate(alone)
    ]


def shared(candidates: Sequence[Candidate], weights: Sequence[float]) -> list[float]:
    """The weights of members from those of `voters`: half of a fading one's goes to the one before it."""
    result = list(weights)
    for number in range(len(candidates)):
        if _has_partner(candidates, number):
            result[number] /= 2
            result[number - 1] += result[number]
    return result


def _has_partner(candidates: Sequence[Candidate], number: int) -> bool:
    """Whether a candidate fades and comes right after the same model without fading."""
    before, one = candidates[max(0, number - 1)], candidates[number]
    return one.fades and not before.fades and before.member.model == one.member.model


def _mean(one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor], users: Tensor) -> Tensor:
    return (one(users) + other(users)) / 2
