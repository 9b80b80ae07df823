"""DCF: drops positives by their loss over all epochs, and takes the worst of them for what was never wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.sampling import Batch, sums
from accord.methods.base import Build, Method, cross_entropy
from accord.methods.known import suspects
from accord.protocol import Protocol


class DCF(Method):
    """A positive is judged by the mean m of log(1 + loss + loss^2 / 2) over the t epochs so far, less a bound

    v (t + v log(2t) / t^2) / (k + 1 - v), v = sigma^2,

    that is the wider the fewer times k it was kept: what was seldom kept gets another chance. Those with the largest
    value are dropped, and the worst of the dropped come back as negatives.
    """

    name = "dcf"
    summary = "truncated cross-entropy by the losses of all epochs; the worst of the dropped come back as negatives"
    recordable = True  # not shardable: it drops the largest of a whole batch
    columns = ("place",)
    remembers = ("mean", "times_kept")

    class Config(BaseConfig):
        drop: float = Field(0.2, ge=0, le=0.5, description="most of a batch that is dropped")
        ramp: int = Field(30_000, ge=1, description="steps until that much is dropped")
        sigma: float = Field(0.1, ge=0, lt=1, description="how uncertain a mean loss is held to be")
        relabel: float = Field(0.05, ge=0, le=1, description="share of the dropped that come back as negatives")

    per_run = ("drop", "ramp", "sigma", "relabel")
    drop: Tensor
    ramp: Tensor
    sigma: Tensor
    relabel: Tensor
    step: Tensor
    epoch: Tensor
    mean: Tensor
    times_kept: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        for name in ("step", "epoch"):
            self.register_buffer(name, torch.zeros(()), persistent=False)
        for name in self.remembers:  # of every interaction, and a last place for the padding of batches
            zeros = torch.zeros(len(self.target.seeds), len(build.train.items) + 1)
            self.register_buffer(name, zeros, persistent=False)

    def begin_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def begin_step(self, step: int) -> str:
        self.step.fill_(step)
        return super().begin_step(step)

    def loss(self, batch: Batch) -> Tensor:
        logits = self.target(batch.users, batch.items)
        losses = cross_entropy(logits, batch)
        real = torch.ones_like(losses) if batch.mask is None else batch.mask.to(losses)
        size = batch.num_positives
        there = real[:, :size]
        place = torch.where(there > 0, batch.column("place"), self.mean.shape[1] - 1)
        mean, value = self._judged(losses[:, :size].detach(), place)
        rate = self.drop * (self.step / self.ramp).clamp(max=1)  # [R, 1]
        value, count = suspects(batch, real, value * there)
        num_dropped = (rate * count).floor()
        rank = value.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
        selected = there * (rank >= num_dropped)
        turned = there * (rank < (self.relabel * num_dropped).floor())
        self.mean.scatter_(1, place, mean)
        self.times_kept.scatter_add_(1, place, selected)
        positive = losses[:, :size] * selected + F.softplus(logits[:, :size]) * turned
        total = sums(batch.weighted(torch.cat([positive, losses[:, size:] * real[:, size:]], 1)))
        if self.rules.reduction == "sum":
            return total
        # one mean over what is left; twice, to weigh against L2 as the two means of the other methods do
        return 2 * total / (selected.sum(1) + turned.sum(1) + real[:, size:].sum(1)).clamp(min=1)

    def _judged(self, losses: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The new means of positives [R, P], and the value that each is judged by."""
        damped = torch.log1p(losses + losses.square() / 2)
        t = self.epoch + 1
        mean = (self.mean.gather(1, place) * self.epoch + damped) / t
        v = self.sigma.square()
        bound = v * (t + v * torch.log(2 * t) / t.square()) / (self.times_kept.gather(1, place) + 1 - v)
        return mean, (mean - bound).clamp(min=0)
