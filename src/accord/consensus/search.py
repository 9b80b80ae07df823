"""The search of `auto`: the families that a budget allows, the best of each, and with labels what they add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from torch import Tensor

from accord.consensus.families import LARGE, NEAR, PAYS, REFINED, ROUNDS, VOTERS, Family, Search, plan_search
from accord.consensus.members import Candidate, MemberTraining
from accord.models.base import Shape, memory_of
from accord.models.consensus import Member, vote

FAR_OVER, LEAST = 1.2, 40.0  # times the budget, and seconds: the clock ends a search that would take more than both
EVALUATED, REPORTED = 6e-8, 1.4e-5  # seconds for each user and item that are judged, and for each interaction


def search_members(training: MemberTraining, budget: float, recency: bool) -> tuple[list[Candidate], dict[str, Any]]:
    """The best candidates of each family within a budget, and a record of what was tried.
    `recency`: whether to try histories that fade, where the log has times."""
    fades = recency and training.has_times and training.relevant is not None
    shape = Shape.of(training.train)
    shape = replace(shape, gpu=training.device.type == "cuda")
    if training.relevant is not None:
        shape = replace(shape, num_judged=len(training.relevant.users))
    in_order = fades and training.data.validation_is_later
    memory, labels = memory_of(training.device), training.num_labels
    plan = plan_search(shape, budget, has_times=fades, in_order=in_order, memory=memory, labels=labels)
    training.notes[:0] = plan.left_out
    search = _Search(training, plan, shape, budget, last_fits=2 if fades else 1)
    members = plan.trials()
    if training.relevant is None:
        members = [trials[:1] for trials in members]  # there is nothing to choose by
    solved_first = sorted(zip(plan.families, members, strict=True), key=lambda one: one[0].method is not None)
    with training.in_background([member for trials in members for member in trials]):
        in_time = all(search.try_all(family, trials) for family, trials in solved_first)
    if in_time and training.relevant is not None:
        search.refine()
    best = [one for family in plan.families for one in search.best_of(family, fades)]
    if training.relevant is None and len(best) > 1:  # votes are equal then, and popularity is no personal taste
        best = [one for one in best if one.member.model != "popularity"]
    record = {"budget": budget, "tried": search.tried, "cost_seconds": round(search.seconds, 1)}
    return best, record


class _Search:
    """What was tried so far: the candidates of each family, the best first."""

    def __init__(self, training: MemberTraining, plan: Search, shape: Shape, budget: float, last_fits: int = 1) -> None:
        self.training, self.plan, self.shape, self.budget, self.last_fits = training, plan, shape, budget, last_fits
        self.seconds = plan.seconds  # of everything that is planned, the last fits too
        self.done = plan.learning  # of these
        self.tried: list[dict[str, Any]] = []
        self.candidates: dict[str, list[Candidate]] = {family.name: [] for family in plan.families}
        self._sentence: str | None = plan.sentence(budget)

    def try_all(self, family: Family, members: Sequence[Member]) -> bool:
        """Try these members of a family; False where the clock has ended the search."""
        for number, member in enumerate(members):
            if self.tried and self._late(family.trial_seconds(self.shape, member)):
                self.training.notes.append(
                    f"the search ended before {member.label}, to keep its budget of {self.budget:g} s: this machine is "
                    "slower than the two cores that it is planned for."
                )
                return False
            self.done += family.trial_seconds(self.shape, member)
            if self._try(family, member, f"{member.label} {number + 1}/{len(members)}") is None and number == 0:
                break  # what fails with its defaults fails with all options
        return True

    def _late(self, trial: float) -> bool:
        """Whether one more trial and all that follows would end over the budget: never on the machine planned for."""
        elapsed, budget = self.training.elapsed, max(self.budget, self.plan.seconds)
        best = [(family, some[0].member) for family in self.plan.families if (some := self.candidates[family.name])]
        last = self.last_fits * sum(family.trial_seconds(self.shape, member) for family, member in best)
        last += self.plan.labels - self.plan.learning + self._after
        slower = max(1.0, elapsed / self.done) if self.done > budget / 4 else 1.0  # the first seconds say little
        return elapsed + slower * (trial + last) > max(FAR_OVER * budget, LEAST)

    @property
    def _after(self) -> float:
        """What the evaluation and the report take, which the plan does not hold; at most what may be over it."""
        judged = EVALUATED * (self.shape.num_judged or self.shape.num_users) * self.shape.num_items
        return min(judged + REPORTED * self.shape.num_interactions, (FAR_OVER - 1) * self.budget)

    def refine(self) -> None:
        """While the budget lasts, try more of the families that lead, in turn: first the plain trials that the plan has
        left out, in the second round the mean of several seeds, and in each points closer to the best."""
        counts = {family.name: count for family, count in zip(self.plan.families, self.plan.counts, strict=True)}
        for number in range(ROUNDS):
            leading = sorted((family for family in self.plan.families if self.candidates[family.name]), key=self._lead)
            leading = leading[::-1][:REFINED]
            best = [self.candidates[family.name][0].member for family in leading]
            more = [family.refined(one, number) for family, one in zip(leading, best, strict=True)]
            for family, one, trials in zip(leading, best, more, strict=True):
                plain = family.trials(1 + family.plain)[counts[family.name] :]
                trials[:0] = [plain, family.averaged(one), [], []][number]
            turns = (one for turn in zip_longest(*more) for one in zip(leading, turn, best, strict=True))
            for family, member, before in turns:
                if member is None or not self._affords(family, member, before):
                    continue
                if not self.try_all(family, [member]):
                    return

    def _affords(self, family: Family, member: Member, before: Member) -> bool:
        """Whether a trial fits into the budget, with its last fit as far as that takes longer than that of the best
        before it; if so, what it takes is spent."""
        seconds, planned = (family.trial_seconds(self.shape, each) for each in (member, before))
        seconds += max(0.0, seconds - planned)
        if self.seconds + seconds > self.budget:
            return False
        self.seconds += seconds
        return True

    def best_of(self, family: Family, fades: bool) -> list[Candidate]:
        """The best of a family, next to it the same with a history that fades, where that pays, and the next best."""
        if not self.candidates[family.name]:
            return []
        leader = max(map(self._lead, self.plan.families))
        best, *others = self.candidates[family.name]
        others = [one for one in others if (one.ndcg or 0) >= NEAR * leader]
        chosen = [best]
        for member in family.faded(best.member) if fades else ():
            self._report(f"{member.label}, recency {member.options['model.recency']}")
            faded = self.training.evaluated(member, self.training.rescored(member, best.method))
            self.tried.append(faded.entry)
            if (faded.ndcg or 0) > PAYS * (chosen[-1].ndcg or 0):
                chosen[1:] = [faded]
        return [*chosen, *others]

    def _try(self, family: Family, member: Member, what: str) -> Candidate | None:
        self._report(what)
        candidate = self.training.candidate(member)
        if candidate is not None:
            self.tried.append(candidate.entry)
            ranked = sorted([*self.candidates[family.name], candidate], key=lambda one: one.ndcg or 0, reverse=True)
            size = sum(tensor.nbytes for tensor in ranked[0].method.state_dict().values())
            self.candidates[family.name] = best = ranked[: VOTERS if size <= LARGE else 1]
            for dropped in ranked[len(best) :]:
                self.training.drop(dropped)
        return candidate

    def _lead(self, family: Family) -> float:
        return max((one.ndcg or 0 for one in self.candidates[family.name]), default=0.0)

    def _report(self, what: str) -> None:
        """What is tried now, the best so far, and how much of the budget is spent."""
        leader = max(map(self._lead, self.plan.families))
        best = f", best so far {leader:.4f}" if leader else ""
        spent = self.done / max(self.budget, self.plan.seconds)
        self.training.report(what + best, min(99, round(100 * spent)), self._sentence)
        self._sentence = None


def voters(candidates: Sequence[Candidate]) -> list[Callable[[Tensor], Tensor]]:
    """What each candidate says of all items for users [B], [B, I], as votes are chosen.
    One whose history fades votes with the one before it, whose history does not: the validation shows what comes next,
    and long-term taste would have no voice."""
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
