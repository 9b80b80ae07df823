"""In the place of a method for `auto`: searches for the consensus that is best for a log."""

from __future__ import annotations

import time
from typing import Any

from accord.methods.base import Lab
from accord.methods.candidates import PAYS, Family, Search, plan_search
from accord.methods.consensus import Candidate, FromMembers
from accord.models.base import Shape

FAR_OVER = 3.0  # times the budget, and a minute: then the clock ends the search


class SearchMembers(FromMembers):
    search: Search
    tried: list[dict[str, Any]]  # one entry per trial

    def stages(self, lab: Lab) -> None:
        budget: float = self.target.config.budget
        began = time.monotonic()
        shape = Shape.of(lab.train_pairs)
        self.search = plan_search(shape, budget, has_times=lab.has_times and lab.relevant is not None)
        self.notes, self.tried = list(self.search.left_out), []
        trials = self.search.trials if lab.relevant is not None else 1  # with nothing to choose by
        best: list[Candidate] = []
        for place, family in enumerate(self.search.families):
            if best and time.monotonic() - began > FAR_OVER * budget + 60:
                rest = ", ".join(one.model for one in self.search.families[place:])
                self.notes.append(
                    f"the search ran far over its budget of {budget:g} s and was ended before {rest}; "
                    "another run may find more."
                )
                break
            found = self._best_of(lab, family, trials, place)
            if found is not None:
                best.append(found)
        if lab.relevant is None and len(best) > 1:  # votes are equal then, and popularity is nobody's own taste
            best = [one for one in best if one.member.model != "popularity"]
        self.agree(lab, best)

    def record(self) -> dict[str, Any]:
        found = {"budget": self.target.config.budget, "trials": self.search.trials, "tried": self.tried}
        return {"search": {**found, "cost_seconds": round(self.search.seconds, 1)}}

    def _best_of(self, lab: Lab, family: Family, trials: int, place: int) -> Candidate | None:
        best: Candidate | None = None
        members, total = family.trials(trials), len(self.search.families) * trials
        for number, member in enumerate(members):
            lab.report(f"{member.label} {number + 1}/{len(members)}", place * trials + number, total)
            found = self.attempt(lab, member)
            if found is None and number == 0:
                break  # what fails with its defaults fails with all options
            if found is None:
                continue
            self.tried.append(found.entry)
            if best is None or (found.ndcg or 0) > (best.ndcg or 0):
                best = found
        if best is None or not lab.has_times or lab.relevant is None:
            return best
        return self._fading(lab, family, best, place * trials + len(members), total)

    def _fading(self, lab: Lab, family: Family, solved: Candidate, done: int, total: int) -> Candidate:
        """The best of a family, with a history that fades where that pays."""
        best = solved
        for member in family.faded(solved.member):
            lab.report(f"{member.label}, recency {member.options['model.recency']}", done, total)
            found = self.judged(lab, member, lab.scored_otherwise(member, solved.method))
            self.tried.append(found.entry)
            if (found.ndcg or 0) > PAYS * (best.ndcg or 0):
                best = found
        return best
