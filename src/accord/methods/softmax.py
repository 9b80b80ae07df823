"""Softmax: an interaction should score higher than all other items of the catalogue together.

    loss of (u, i) = log Σ_j exp(s_uj / τ) − s_ui / τ =: ℓ_ui,   j over all items;   of a batch, its mean

and for noisy interactions BSL, with a second temperature: − (τ₁ / τ) log mean exp(− ℓ_ui τ / τ₁), by which the worst
interactions of a batch count least; with a large τ₁ it is the mean again.

A batch holds users with all their interactions, so that a user's sum over the catalogue is taken once for all of them:
an epoch costs users x items, not interactions x items. Of a large catalogue n items are drawn for each step, each with
odds q_j ~ (1 + its interactions)^0.75, and exp(s_uj / τ) / (n q_j) stands for what an item adds to the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.sampling import Batch
from accord.kernels.lookups import take_rows
from accord.methods.base import Build, Method
from accord.methods.labels import labels_of
from accord.nn.layers import Streams
from accord.protocol import Protocol

WHOLE, DRAWN = 2**13, 2**11  # items of a catalogue up to which all are summed over, and how many of a larger one
WHOLE_ON_CUDA = 2**16
BY_PAIRS = 256  # items at most for a model that scores pair by pair
POWER = 0.75  # of popularity, by which items are drawn


class Softmax(Method):
    name = "softmax"
    summary = "softmax over all items: an interaction should score higher than the rest of the catalogue together"
    batching = "users"

    class Config(BaseConfig):
        temperature: float = Field(0.2, gt=0, description="τ, by which scores are divided; about 0.2 for cosines")
        items: int | None = Field(
            None,
            ge=1,
            description="how many items a step sums over, drawn at random from more; if not given, all of up to "
            f"{WHOLE:,} items ({WHOLE_ON_CUDA:,} on a GPU), else {DRAWN:,} that are drawn",
        )

    per_run: ClassVar[tuple[str, ...]] = ("temperature",)
    temperature: Tensor
    odds: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.draws = Streams(self.target.seeds, "softmax items")
        odds = torch.from_numpy((1.0 + build.train.popularity()) ** POWER)
        self.register_buffer("odds", odds / odds.sum(), persistent=False)
        self.target.only_looks_up = False  # type: ignore[misc]  # a step may read the whole table of items
        if (self.config.items or 0) > self.target.num_items:
            self.notes = [
                f"method.items is {self.config.items:,}, and there are {self.target.num_items:,} items: "
                "the loss sums over all of them."
            ]

    def loss(self, batch: Batch) -> Tensor:
        losses, counts = self._losses(batch), counts_of(batch)
        return (losses * counts).sum(1) / counts.sum(1).clamp(min=1e-12)

    def _losses(self, batch: Batch) -> Tensor:
        """ℓ of each positive: [R, P]."""
        size = batch.num_positives
        owners, items = batch.users[:, :size], batch.items[:, :size]
        users, place = _distinct(owners)
        vectors = self.target.contexts(owners, items)
        if vectors is None:
            vectors = self.target.factors(users)
        else:  # each is a user of its own
            place = torch.arange(size, device=owners.device).expand(len(owners), -1)
        if vectors is None:
            drawn = self._drawn(users, BY_PAIRS)
            positive, others = self._score_pairs(owners, items, users, drawn)
            total = torch.logsumexp(others if drawn is None else others - self._expected(drawn).unsqueeze(1), -1)
        else:
            drawn = self._drawn(users)
            of_users, of_items = vectors[0] / self.temperature.unsqueeze(-1), vectors[1]
            positive = (take_rows(of_users, place) * take_rows(of_items, items)).sum(-1)
            if drawn is not None:  # one more dimension, for the odds
                of_items = torch.cat([take_rows(of_items, drawn), -self._expected(drawn).to(of_items).unsqueeze(2)], 2)
                of_users = F.pad(of_users, (0, 1), value=1.0)
            total = log_sum_exp(of_users, of_items)
        total = total.gather(1, place)  # [R, B] -> [R, P]
        return (total if drawn is None else torch.logaddexp(positive, total)) - positive

    def _drawn(self, users: Tensor, most: int | None = None) -> Tensor | None:
        """Items that stand for the catalogue, [R, n], `most` at most; None: all of it."""
        every = self.target.num_items
        whole = WHOLE_ON_CUDA if users.is_cuda else WHOLE
        number = self.config.items or (every if every <= whole else DRAWN)
        number = min(number, most or number)
        if number >= every:
            return None
        drawn = self.draws.uniform([number] * len(users), users.device)
        places = torch.searchsorted(self.odds.cumsum(0), drawn.double(), right=True)
        return places.clamp(max=every - 1).view(len(users), number)

    def _expected(self, drawn: Tensor) -> Tensor:
        """The logarithm of how often each item that was drawn, [R, n], is expected among them."""
        return (self.odds[drawn] * drawn.shape[1]).log()

    def _score_pairs(self, owners: Tensor, items: Tensor, users: Tensor, drawn: Tensor | None) -> tuple[Tensor, Tensor]:
        """Scores of the positives [R, P], and of the users with the items of the sum [R, B, n], pair by pair."""
        every = torch.arange(self.target.num_items, device=users.device).expand(len(users), -1)
        others = every if drawn is None else drawn
        shape = *users.shape, others.shape[1]
        rows = torch.cat([owners, users.repeat_interleave(others.shape[1], 1)], 1)
        scores = self.target(rows, torch.cat([items, others.repeat(1, users.shape[1])], 1)) / self.temperature
        return scores[:, : owners.shape[1]], scores[:, owners.shape[1] :].view(shape)


class BSL(Softmax):
    name = "bsl"
    summary = "softmax with a second temperature, by which interactions that fit worst count least"

    class Config(Softmax.Config):
        positive_temperature: float = Field(
            0.4, gt=0, description="τ₁: the smaller, the less low-scoring interactions count"
        )

    per_run = ("temperature", "positive_temperature")
    positive_temperature: Tensor

    def loss(self, batch: Batch) -> Tensor:
        ratio, losses = self.positive_temperature / self.temperature, self._losses(batch)
        counts = counts_of(batch).to(losses).clamp(min=1e-30)
        total = torch.logsumexp(counts.log() - losses / ratio, 1)
        return ratio.squeeze(1) * (counts.sum(1).log() - total)


def log_sum_exp(users: Tensor, items: Tensor) -> Tensor:
    """log Σ_j exp(u·v_j) for each u of users [R, B, d] over the items [R, n, d]: [R, B]."""
    result: Tensor = _LogSumExp.apply(users, items)  # type: ignore[no-untyped-call]
    return result


class _LogSumExp(torch.autograd.Function):
    """Overwrites the products with their exponentials, which are all that the gradient needs: 1.2 to 1.8 times as long
    as the three matrix products, where `torch.logsumexp` takes 1.8 to 2.6 times."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor) -> Tensor:
        scores = users @ items.mT
        most = scores.amax(-1, keepdim=True)
        scores.sub_(most).exp_()
        total = scores.sum(-1, keepdim=True)
        ctx.save_for_backward(users, items, scores, total)
        return (most + total.log()).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        users, items, scores, total = ctx.saved_tensors
        scale = gradient.unsqueeze(-1) / total
        return (scores @ items) * scale, scores.mT @ (users * scale)


def counts_of(batch: Batch) -> Tensor:
    """What each positive counts for: its weight, and as much of it as its label says is real; [R, P]."""
    size, labels = batch.num_positives, labels_of(batch)
    counts = torch.ones_like(batch.users[:, :size], dtype=torch.get_default_dtype())
    if batch.mask is not None:
        counts = counts * batch.mask[:, :size]
    if "weight" in batch.columns:
        counts = counts * batch.columns["weight"]
    return counts if labels is None else counts * labels.r


def _distinct(owners: Tensor) -> tuple[Tensor, Tensor]:
    """The users of each run, once, padded with the last [R, B], and where each of `owners` [R, P] is among them."""
    first = torch.ones_like(owners, dtype=torch.bool)
    first[:, 1:] = owners[:, 1:] != owners[:, :-1]  # a user's interactions are next to each other
    place = first.cumsum(1) - 1
    users = owners[:, -1:].repeat(1, int(place[:, -1].max()) + 1)
    return users.scatter(1, place, owners), place
