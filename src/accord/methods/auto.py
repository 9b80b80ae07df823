"""In the place of a method for `auto`: searches for the consensus that is best for a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from accord.evaluation.selection import choose_trust
from accord.methods.base import Lab
from accord.methods.candidates import PAYS, Family, Search, plan_search
from accord.methods.consensus import Candidate, FromMembers
from accord.models.base import Shape
from accord.models.consensus import Member

CLEANED = ("ease", "item-knn", "graph-filter", "ials", "mf")  # families that gain by being told what is real
BY_P_REAL = ("ials", "mf")  # of these, those that are trained by it; the others have an option
CLEAN, OF_VOTE = 0.1, 0.5  # what each of them counts for beside the others' vote: this, and so much of its own vote
QUALITY = 0.2  # what an item's quality counts for
FAR_OVER = 3.0  # times the budget, and a minute: then the clock ends the search


class SearchMembers(FromMembers):
    search: Search
    tried: list[dict[str, Any]]  # one entry per trial
    fades: bool  # whether fading histories are tried

    def stages(self, lab: Lab) -> None:
        budget: float = self.target.config.budget
        began = time.monotonic()
        shape = Shape.of(lab.train_pairs)
        self.fades = self.target.config.recency and lab.has_times and lab.relevant is not None
        self.search = plan_search(shape, budget, has_times=self.fades)
        self.notes, self.tried = [*self.search.left_out, *self.judged_without(lab)], []
        trials = self.search.trials if lab.relevant is not None else 1  # with nothing to choose by
        best: list[Candidate] = []
        with lab.beside([member for family in self.search.families for member in family.trials(trials)]):
            for place, family in enumerate(self.search.families):
                if best and time.monotonic() - began > FAR_OVER * budget + 60:
                    rest = ", ".join(one.model for one in self.search.families[place:])
                    self.notes.append(
                        f"the search ran far over its budget of {budget:g} s and was ended before {rest}; "
                        "another run may find more."
                    )
                    break
                best += self._best_of(lab, family, trials, place)
        if lab.relevant is None and len(best) > 1:  # votes are equal then, and popularity is nobody's own taste
            best = [one for one in best if one.member.model != "popularity"]
        self.agree(lab, best)
        if "label" in lab.train_pairs.columns and self.learn_labels(lab):
            self.add_clean(lab, clean_members([one.member for one in self.candidates]))
            self._trust_labels(lab)

    def _trust_labels(self, lab: Lab) -> None:
        """Let what labels say count for more or less, where labelled validation pairs show that this is better."""
        real = lab.known_real
        trust = 1.0 if real is None else choose_trust(self.target.sides, lab.ranker(self), real)
        if trust == 1.0:
            return
        self.notes.append(f"labelled validation pairs show that labels are worth {trust:g} times their usual vote.")
        self.candidates = [replace(one, member=trusted(one.member, trust)) for one in self.candidates]
        kept = [one for one in self.candidates if one.member.weight]
        self.chosen = [one.member for one in kept]
        self.target.take(self.chosen, [one.method for one in kept])

    def voters(self, candidates: Sequence[Candidate]) -> list[Callable[[Tensor], Tensor]]:
        """One whose history fades votes with the one before, whose history does not: validation tells what comes next,
        and what is liked for long would have no voice."""
        alone = super().voters(candidates)
        return [
            partial(_mean, alone[place - 1], own) if one.fades else own
            for place, (one, own) in enumerate(zip(candidates, alone, strict=True))
        ]

    def weigh(self, lab: Lab, candidates: Sequence[Candidate]) -> list[float]:
        weights = super().weigh(lab, candidates)
        for place, one in enumerate(candidates):
            if one.fades:
                weights[place] /= 2
                weights[place - 1] += weights[place]
        return weights

    def record(self) -> dict[str, Any]:
        found = {"budget": self.target.config.budget, "trials": self.search.trials, "tried": self.tried}
        return {"search": {**found, "cost_seconds": round(self.search.seconds, 1)}}

    def _best_of(self, lab: Lab, family: Family, trials: int, place: int) -> list[Candidate]:
        """The best of a family, and beside it the same with a history that fades, where that pays."""
        best: Candidate | None = None
        members, total = family.trials(trials), len(self.search.families) * trials
        for number, member in enumerate(members):
            plan = self.search.sentence(self.target.config.budget) if place == number == 0 else None
            lab.report(f"{member.label} {number + 1}/{len(members)}", place * trials + number, total, plan)
            found = self.attempt(lab, member)
            if found is None and number == 0:
                break  # what fails with its defaults fails with all options
            if found is None:
                continue
            self.tried.append(found.entry)
            if best is None or (found.ndcg or 0) > (best.ndcg or 0):
                best = found
        kept = [] if best is None else [best]
        if best is None or not self.fades:
            return kept
        for member in family.faded(best.member):
            done = place * trials + len(members)
            lab.report(f"{member.label}, recency {member.options['model.recency']}", done, total)
            faded = self.judged(lab, member, lab.scored_otherwise(member, best.method))
            self.tried.append(faded.entry)
            if (faded.ndcg or 0) > PAYS * (kept[-1].ndcg or 0):
                kept[1:] = [faded]
        return kept


def _mean(one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor], users: Tensor) -> Tensor:
    return (one(users) + other(users)) / 2


def trusted(member: Member, trust: float) -> Member:
    """A member with the vote that it has where labels are trusted so many times as usual: none where not at all."""
    return member.model_copy(update={"weight": (member.weight or 0) * trust or None}) if member.added else member


def clean_members(found: Sequence[Member]) -> list[Member]:
    """Of the families that labels can make clean the best that was found, told how real each interaction is, and the
    items' quality. Votes say what a family is worth on this log; but where most of it is noise, they mislead."""
    best = {member.model: member for member in reversed(found)}  # of a model the first
    clean = [_told(best[name]) for name in CLEANED if name in best]
    return [*clean, Member(model="quality", weight=QUALITY, added=True)]


def _told(member: Member) -> Member:
    told = {"added": True, "weight": round(CLEAN + OF_VOTE * (member.weight or 0), 4)}
    if member.model in BY_P_REAL:
        return member.model_copy(update={**told, "by_p_real": True})
    return member.model_copy(update={**told, "options": {**member.options, "model.clean": True}})
