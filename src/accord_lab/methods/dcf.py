"""DCF: drops positives by their loss over all epochs, and takes the worst of them for what was never wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.data.sampling import Batch
from accord.methods.base import Build, cross_entropy
from accord.protocol import Protocol
from accord_lab.methods.denoising_losses import DropConfig, Drops


class DCF(Drops):
    """A positive is judged by the mean m of log(1 + loss + loss^2 / 2) over the t epochs so far, less a bound

    v (t + v log(2t) / t^2) / (k + 1 - v), v = sigma^2,

    that is the wider the fewer times k it was kept: what was seldom kept gets another chance. Those with the largest
    value are dropped, and the worst of the dropped come back as negatives.
    """

    name = "dcf"
    summary = "truncated cross-entropy by the losses of all epochs; the worst of the dropped come back as negatives"
    columns = ("place",)
    remembers = ("mean", "times_kept")

    class Config(DropConfig):
        sigma: float = Field(0.1, ge=0, lt=1, description="how uncertain a mean loss is held to be")
        relabel: float = Field(0.05, ge=0, le=1, description="share of the dropped that come back as negatives")

    per_run = ("drop", "ramp", "sigma", "relabel")
    sigma: Tensor
    relabel: Tensor
    epoch: Tensor
    mean: Tensor
    times_kept: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.register_buffer("epoch", torch.zeros(()), persistent=False)
        for name in self.remembers:  # of every interaction, and a last place for the padding of batches
            zeros = torch.zeros(len(self.target.seeds), len(build.train.items) + 1)
            self.register_buffer(name, zeros, persistent=False)

    def begin_epoch(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def loss(self, batch: Batch) -> Tensor:
        logits = self.target(batch.users, batch.items)
        losses = cross_entropy(logits, batch)
        real = torch.ones_like(losses) if batch.mask is None else batch.mask.to(losses)
        size = batch.num_positives
        there = real[:, :size]
        place = torch.where(there > 0, batch.column("place"), self.mean.shape[1] - 1)
        mean, value = self._judged(losses[:, :size].detach(), place)
        rank, num_dropped = self.order(batch, real, value * there)
        selected = there * (rank >= num_dropped)
        turned = there * (rank < (self.relabel * num_dropped).floor())
        self.mean.scatter_(1, place, mean)
        self.times_kept.scatter_add_(1, place, selected)
        positive = losses[:, :size] * selected + F.softplus(logits[:, :size]) * turned
        losses = torch.cat([positive, losses[:, size:] * real[:, size:]], 1)
        return self.mean_of_rest(batch, losses, selected.sum(1) + turned.sum(1) + real[:, size:].sum(1))

    def _judged(self, losses: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The new means of positives [R, P], and the value that each is judged by."""
        damped = torch.log1p(losses + losses.square() / 2)
        t = self.epoch + 1
        mean = (self.mean.gather(1, place) * self.epoch + damped) / t
        v = self.sigma.square()
        bound = v * (t + v * torch.log(2 * t) / t.square()) / (self.times_kept.gather(1, place) + 1 - v)
        return mean, (mean - bound).clamp(min=0)
