"""The methods that DeCA is compared with: plain BCE and its re-weighted, re-sampled and averaged kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.data.sampling import Batch, sums
from accord.errors import InputError
from accord.methods.base import Build, Method, cross_entropy, reduce_like
from accord.models.base import BaseConfig, Model
from accord.protocol import Protocol


class Normal(Method):
    name = "normal"
    summary = "plain binary cross-entropy: every interaction is believed"
    recordable = True
    together = None

    def loss(self, batch: Batch) -> Tensor:
        return reduce_like(self.target, batch, cross_entropy(self.target(batch.users, batch.items), batch))


class WBPR(Normal):
    name = "wbpr"
    summary = "cross-entropy with negatives in proportion to popularity: a popular item not taken is not wanted"
    recordable = True
    together = None
    negatives = "popularity"


class TCE(Method):
    name = "tce"
    summary = "truncated cross-entropy: the positives with the largest loss are dropped"
    recordable = True
    together = "it drops the largest losses of a whole batch"

    class Config(BaseConfig):
        drop: float = Field(0.2, ge=0, le=0.5, description="most of a batch that is dropped")
        ramp: int = Field(30_000, ge=1, description="steps until that much is dropped")

    per_run = ("drop", "ramp")
    drop: Tensor
    ramp: Tensor
    step: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def begin_step(self, step: int) -> str:
        self.step.fill_(step)
        return super().begin_step(step)

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        real = torch.ones_like(losses) if batch.mask is None else batch.mask
        rate = self.drop * (self.step / self.ramp).clamp(max=1)  # [R, 1]
        num_dropped = (rate * real.sum(1, keepdim=True)).floor()
        positives = (losses * real)[:, : batch.num_positives].detach()
        place = positives.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
        kept = real.clone()
        kept[:, : batch.num_positives] *= place >= num_dropped
        if self.target.reduction == "sum":
            return sums(losses * kept)
        # one mean over what is kept; twice, to weigh against L2 as the two means of the other methods do
        return 2 * sums(losses * kept) / kept.sum(1).clamp(min=1)


class RCE(Method):
    name = "rce"
    summary = "re-weighted cross-entropy: pairs that the model disbelieves weigh less"
    recordable = True
    together = None

    class Config(BaseConfig):
        beta: float = Field(0.25, ge=0, description="power of the model's own probability in the weight")

    per_run = ("beta",)
    beta: Tensor

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        weights = torch.exp(-losses.detach() * self.beta)  # exp(-BCE) is f for a positive and 1 - f for a negative
        return reduce_like(self.target, batch, weights * losses)


class Ensemble(Normal):
    name = "ensemble"
    summary = "the mean probability of two plain runs with different seeds"
    recordable = True
    together = None
    members = 2

    def _mean(self, logits: Tensor) -> Tensor:
        """Mean probability over the members: [M * R, ...] -> [R, ...]."""
        return torch.sigmoid(logits).view(self.members, -1, *logits.shape[1:]).mean(0)

    def score_all(self, users: Tensor) -> Tensor:
        # the logit of the mean probability as log-odds of two sums, so that sure pairs do not round to 0 or 1 and tie
        logits = self.target.score_all(users)
        logits = logits.view(self.members, -1, *logits.shape[1:])
        return F.logsigmoid(logits).logsumexp(0) - F.logsigmoid(-logits).logsumexp(0)

    def posterior(self, users: Tensor, items: Tensor) -> Tensor:
        return self._mean(self.target(users.repeat(self.members, 1), items.repeat(self.members, 1)))


class ClosedForm(Method):
    """In the place of a method for a model that is fitted already: it has no loss, and its scores are no logits."""

    name = "none"
    summary = "fitted in closed form"

    def __init__(self, target: Model) -> None:
        torch.nn.Module.__init__(self)
        self.target = target

    def posterior(self, users: Tensor, items: Tensor) -> Tensor:
        raise InputError(f"model '{self.target.name}' gives no probability; train a learned model to find noise.")


class Pretrain(Normal):
    """Plain training of a network that another method needs first."""

    name = "pretrain"
    summary = "the first stage of DeCA(p)"
    recordable = True
    together = None

    def __init__(self, target: Model) -> None:
        torch.nn.Module.__init__(self)
        self.target = target
