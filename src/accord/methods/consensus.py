"""In the place of a method for a consensus: trains its members, each with its own, and weighs their votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from accord.errors import InputError
from accord.evaluation.selection import choose_weights, collect_votes
from accord.methods.base import Lab, Method
from accord.methods.solve import Solve
from accord.models.consensus import Consensus, Member, vote
from accord.posteriors.estimate import Estimate, estimate


@dataclass(frozen=True)
class Candidate:
    """A trained member, and how well it recommends alone."""

    member: Member
    method: Method
    ndcg: float | None  # @20 on the validation, where there is one

    @property
    def fades(self) -> bool:
        """Whether it scores from a history that fades."""
        return "model.recency" in self.member.options

    @property
    def entry(self) -> dict[str, Any]:
        """What is written down of it."""
        said = self.member.model_dump(mode="json", exclude_defaults=True)
        return said if self.ndcg is None else {**said, "valid_ndcg@20": self.ndcg}


class FromMembers(Solve):
    target: Consensus
    candidates: list[Candidate]  # the best of each family, those that got no vote too
    notes: list[str]
    learned: Estimate | None = None  # what labels have taught, where they were asked

    def stages(self, lab: Lab) -> None:
        self.notes = self.judged_without(lab)
        members = self.target.config.members
        if any(member.added for member in members):
            self.learn_labels(lab)
        with lab.beside(members):
            candidates = [found for member in members if (found := self.attempt(lab, member)) is not None]
        self.agree(lab, candidates)

    def record(self) -> dict[str, Any]:
        """What the results keep of how the members were found, besides the members."""
        return {}

    def judged_without(self, lab: Lab) -> list[str]:
        """A note of what the validation leaves out, where it does."""
        left_out = f"the validation leaves out {lab.known_noise:,} interactions, which are labelled as noise."
        return [left_out] if lab.known_noise else []

    def attempt(self, lab: Lab, member: Member) -> Candidate | None:
        """A member, trained and judged; None, with a note, if it fails."""
        try:
            trained, epochs = lab.fit(member)
        except (InputError, MemoryError, torch.OutOfMemoryError) as error:
            why = str(error) if isinstance(error, InputError) else "it does not fit into memory."
            self.notes.append(f"{member.label} is left out: {why}")
            return None
        # where nothing stopped it, it had those that were best before, and the next fit is to have them too
        return self.judged(lab, member.model_copy(update={"epochs": epochs or member.epochs}), trained)

    def judged(self, lab: Lab, member: Member, trained: Method) -> Candidate:
        return Candidate(member, trained, lab.validate(trained))

    def agree(self, lab: Lab, candidates: Sequence[Candidate]) -> None:
        """Let the candidates vote: with the weights that were given, or with those that are best on the validation."""
        if not candidates:
            raise InputError(f"no member of the consensus could be trained: {' '.join(self.notes)}")
        weights = [candidate.member.weight for candidate in candidates]
        if None in weights:
            asked = [candidate for candidate in candidates if not candidate.member.added]
            chosen = iter(self.weigh(lab, asked))
            weights = [one.member.weight if one.member.added else next(chosen) for one in candidates]
        self.candidates = [
            replace(candidate, member=candidate.member.model_copy(update={"weight": weight or None}))
            for candidate, weight in zip(candidates, weights, strict=True)
        ]
        kept = [candidate for candidate in self.candidates if candidate.member.weight]
        self.chosen = [candidate.member for candidate in kept]
        self.target.take(self.chosen, [candidate.method for candidate in kept])

    def learn_labels(self, lab: Lab) -> bool:
        """Let members that come know how real each interaction is, as far as labels tell."""
        found = self.learned = estimate(lab.train_pairs, lab.train_pairs.columns.get("label"))
        self.notes.append(found.why)
        if found.used:
            lab.set_column("p_real", found.believed)
        return found.used

    def add_clean(self, lab: Lab, clean: Sequence[Member]) -> None:
        """Add what labels say to the vote: these members, at the weights that they have."""
        added = [found for member in clean if (found := self.attempt(lab, member)) is not None]
        self.candidates += added
        self.chosen = [*(self.chosen or ()), *(one.member for one in added)]
        self.target.take(self.chosen, [*self.target.members, *(one.method for one in added)])

    def weigh(self, lab: Lab, candidates: Sequence[Candidate]) -> list[float]:
        if len(candidates) == 1:
            return [1.0]
        if lab.relevant is None:
            self.notes.append("there is no validation to weigh the members by, so that their votes are equal.")
            return [1.0] * len(candidates)
        return choose_weights(collect_votes(self.voters(candidates), lab.ranker(self), lab.relevant))

    def voters(self, candidates: Sequence[Candidate]) -> list[Callable[[Tensor], Tensor]]:
        """What is weighed: what each candidate says of all items for users [B], [B, I]."""
        return [partial(vote, one.method) for one in candidates]
