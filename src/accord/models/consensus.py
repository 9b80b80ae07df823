"""Consensus: models of different families vote, each with scores standardised within a user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.config import BaseConfig, full_name
from accord.kernels import cpu
from accord.models.base import Model, Setup

MOST_MEMBERS, MOST_SEEDS = 64, 256


class Member(BaseConfig):
    """A run that votes in a consensus."""

    model: str = Field(description="name, or module:Class of a caller's own")
    method: str | None = Field(default=None, description="name, or module:Class; none for models that are solved")
    options: dict[str, Any] = Field(default={}, description="as model.l2, method.c1 or train.lr")
    seeds: int = Field(default=1, ge=1, le=MOST_SEEDS, description="how many seeds to average")
    epochs: int | None = Field(default=None, ge=1, description="training epochs, without a validation to stop by")
    weight: float | None = Field(default=None, gt=0, description="weight of its vote; none: chosen on the validation")
    by_p_real: bool = Field(default=False, description="interactions weighted by p_real, learned from labels")

    @property
    def taught(self) -> bool:
        return self.by_p_real or bool(self.options.get("model.clean")) or self.model == "quality"

    @property
    def label(self) -> str:
        name = full_name(self.model, self.method)
        name += "" if self.seeds == 1 else f" x {self.seeds}"
        name += " (by labels)" if self.taught and self.model != "quality" else ""
        return name + (" (fading)" if self.options.get("model.recency") else "")


def standardised(scores: Tensor) -> Tensor:
    """Scores [..., I] with mean 0 and standard deviation 1 over the items; 0 where all are equal."""
    divisor = spread(scores)
    return torch.where(divisor.isinf(), 0.0, (scores - scores.mean(-1, keepdim=True)) / divisor)


def spread(scores: Tensor) -> Tensor:
    """What standardising divides scores [..., I] by: [..., 1]; infinite where all are equal."""
    result = (scores - scores.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt()
    return torch.where(result > 1e-6 * scores.abs().amax(-1, keepdim=True), result, torch.inf)


def add_standardised(total: Tensor, scores: Tensor, weight: float) -> None:
    """Add the mean over the runs of scores [R, B, I], standardised, to total [B, I], `weight` times: in one pass over
    each user's scores where there are kernels, which differ from plain torch in the last digits of float32."""
    if cpu.usable(total) and cpu.usable(scores):
        cpu.add_standardised(scores, total, weight / len(scores))
    else:
        total += weight * standardised(scores).mean(0)


def opinion(member: nn.Module, scores: Tensor) -> Tensor:
    """What the scores [..., I] of a trained method say, comparable between members."""
    return scores if member.target.own_scale else standardised(scores)  # type: ignore[union-attr]


def add_vote(total: Tensor, member: nn.Module, users: Tensor, weight: float = 1.0) -> None:
    """Add what a trained method says of all items for users [B], the mean over its runs, to total [B, I]."""
    target, size = member.target, -(-len(users) // len(member.target.seeds))  # type: ignore[union-attr,arg-type]
    for start in range(0, len(users), size or 1):  # as many at once as of one run
        sums, scores = total[start : start + size], member.score_all(users[start : start + size])  # type: ignore[operator]
        if target.own_scale:  # type: ignore[union-attr]
            sums += weight * scores.mean(0)
        else:
            add_standardised(sums, scores, weight)


def vote(member: nn.Module, users: Tensor) -> Tensor:
    total = torch.zeros(len(users), member.target.num_items, device=users.device)  # type: ignore[union-attr,arg-type]
    add_vote(total, member, users)
    return total


def as_run(member: nn.Module, users: Tensor) -> Tensor:
    """The same as the scores of a model with one run, [1, B, I]: of one that has one run, its own."""
    alone = len(member.target.seeds) == 1  # type: ignore[union-attr,arg-type]
    return member.score_all(users) if alone else vote(member, users).unsqueeze(0)  # type: ignore[operator]


class Consensus(Model):
    """The weighted sum of what its members say."""

    name = "consensus"
    summary = "the default, a vote of several models of any kind: of given members, or the best that a search finds"
    solved = True
    logits = False

    class Config(BaseConfig):
        members: tuple[Member, ...] = Field(
            (),
            max_length=MOST_MEMBERS,
            description='the models that vote, as [{"model": "ease"}]; none: a search for the best',
        )
        budget: float = Field(120.0, gt=0, description="seconds for the search on two ordinary cores, by a cost model")
        recency: bool = Field(True, description="let the search try histories that fade, where the log has times")
        omit_when_default = ("members", "recency")

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.take(config.members, setup.members)

    def take(self, members: Sequence[Member], trained: Sequence[nn.Module]) -> None:
        self.members, self.weights = nn.ModuleList(trained), [member.weight or 1.0 for member in members]
        self.weighed = [member.by_p_real for member in members]  # what each interaction counted for is not kept

    def _sum(self, votes: Iterable[Tensor | None]) -> Tensor | None:
        """The weighted sum of votes [..., I] or of parts of them."""
        weighted = [weight * one for weight, one in zip(self.weights, votes, strict=True) if one is not None]
        return sum(weighted[1:], weighted[0]) if weighted else None

    def score_all(self, users: Tensor) -> Tensor:
        total = torch.zeros(len(users), self.num_items, device=users.device)
        for number, member in enumerate(self.members):
            add_vote(total, member, users, self.weights[number])
        return total.unsqueeze(0)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        every, place = torch.unique(users[0], return_inverse=True)
        return self.score_all(every)[:, place, items[0]]

    @property
    def in_order(self) -> bool:
        return any(member.target.in_order for member in self.members)  # type: ignore[union-attr]

    def fold_in(self, history: Tensor) -> Tensor | None:
        """The vote of the members that can fold a history in."""
        result = [(member, member.target.scores_of(history)) for member in self.members]  # type: ignore[union-attr,operator]
        return self._sum(
            None if scores is None else opinion(member, scores).mean(0, keepdim=True) for member, scores in result
        )

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor | None:
        """What a history adds to the votes of those members that have such sums, and count each interaction alike;
        None where no member has.

        A vote is standardised, so that it is a sum but for a number that is the same for all items.
        """
        parts: list[Tensor | None] = []
        for number, member in enumerate(self.members):
            scores: Tensor | None = (
                member.target.scores_of(history)  # type: ignore[union-attr,operator]
                if user is None
                else member.score_all(history.new_tensor([user]))  # type: ignore[operator]
            )
            added = None if self.weighed[number] else member.target.contributions(history, items, user)  # type: ignore[union-attr,operator]
            if added is None or scores is None:
                parts.append(None)
            else:
                parts.append((added / spread(scores).to(added).view(-1, 1, 1)).mean(0))
        result = self._sum(parts)
        return None if result is None else result.unsqueeze(0)

    def for_newcomers(self) -> Tensor | None:
        result = (member.target.for_newcomers() for member in self.members)  # type: ignore[union-attr,operator]
        return next((scores for scores in result if scores is not None), None)
