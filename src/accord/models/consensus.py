"""Consensus: models of different families vote, each with scores standardised within a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.models.base import Model, Setup

MOST_MEMBERS, MOST_SEEDS = 64, 256


class Member(BaseConfig):
    """A run that votes in a consensus."""

    model: str = Field(description="name, or module:Class of a caller's own")
    method: str | None = Field(default=None, description="name, or module:Class; none for models that are solved")
    options: dict[str, Any] = Field(default={}, description="as model.l2, method.c1 or train.lr")
    seeds: int = Field(default=1, ge=1, le=MOST_SEEDS, description="runs whose mean is taken")
    epochs: int | None = Field(default=None, ge=1, description="passes where there is no validation to stop by")
    weight: float | None = Field(default=None, gt=0, description="what its vote counts for; none: chosen on validation")

    @property
    def label(self) -> str:
        """How it is called in tables and sentences."""
        name = self.model if self.method is None else f"{self.model} + {self.method}"
        return name if self.seeds == 1 else f"{name} x {self.seeds}"


def standardised(scores: Tensor) -> Tensor:
    """Scores [..., I] with mean 0 and standard deviation 1 over the items; 0 where all are equal."""
    centred = scores - scores.mean(-1, keepdim=True)
    spread = centred.square().mean(-1, keepdim=True).sqrt()
    return torch.where(spread > 1e-6 * scores.abs().amax(-1, keepdim=True), centred / spread, 0.0)


def vote(member: nn.Module, users: Tensor) -> Tensor:
    """What a trained method says of all items for users [B]: the mean over its runs, [B, I]."""
    runs = len(member.target.seeds)  # type: ignore[union-attr,arg-type]
    parts = torch.split(users, -(-len(users) // runs)) if len(users) else [users]  # as many scores at once as of one
    return torch.cat([standardised(member.score_all(part)).mean(0) for part in parts])  # type: ignore[operator]


def as_run(member: nn.Module, users: Tensor) -> Tensor:
    """The same as the scores of a model with one run: [1, B, I]."""
    return vote(member, users).unsqueeze(0)


class Consensus(Model):
    """The weighted sum of what its members say."""

    name = "consensus"
    summary = "a vote of several models of any kind: more accurate than each where they err differently"
    solved = True
    logits = False

    class Config(BaseConfig):
        members: tuple[Member, ...] = Field(
            (), max_length=MOST_MEMBERS, description='the models that vote, as [{"model": "ease"}, {"model": "ials"}]'
        )

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.take(setup.members, [member.weight or 1.0 for member in config.members])

    def take(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        """Let these methods vote from now on."""
        self.members, self.weights = nn.ModuleList(members), list(weights)

    def score_all(self, users: Tensor) -> Tensor:
        total = sum(weight * vote(member, users) for weight, member in zip(self.weights, self.members, strict=True))
        assert isinstance(total, Tensor)
        return total.unsqueeze(0)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        every, place = torch.unique(users[0], return_inverse=True)
        return self.score_all(every)[:, place, items[0]]

    @property
    def in_order(self) -> bool:
        return any(member.target.in_order for member in self.members)  # type: ignore[union-attr]

    def fold_in(self, history: Tensor) -> Tensor | None:
        """The vote of the members that can fold a history in."""
        total = None
        for weight, member in zip(self.weights, self.members, strict=True):
            scores = member.target.scores_of(history)  # type: ignore[union-attr,operator]
            if scores is not None:
                own = weight * standardised(scores).mean(0, keepdim=True)
                total = own if total is None else total + own
        return total

    def _first_that_has(self, what: str) -> Tensor | None:
        """Of the members in the order of their weights, what the first has that has it."""
        for _, member in sorted(zip(self.weights, self.members, strict=True), key=lambda each: -each[0]):
            found: Tensor | None = getattr(member.target, what)()
            if found is not None:
                return found
        return None

    def item_vectors(self) -> Tensor | None:
        return self._first_that_has("item_vectors")

    def item_to_item(self) -> Tensor | None:
        return self._first_that_has("item_to_item")

    def ready_to_score(self) -> None:
        for member in self.members:
            member.target.ready_to_score()  # type: ignore[union-attr,operator]
