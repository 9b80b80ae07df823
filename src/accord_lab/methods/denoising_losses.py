"""T-CE, R-CE and DCF: cross-entropy that drops, or weighs down, the pairs with a large loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import IntArray
from accord.data.sampling import Batch, sums
from accord.methods.base import Build, Method, cross_entropy
from accord.methods.labels import labelled, labels_of
from accord.protocol import Protocol
from accord_lab.methods.whole_log import counts_for, of_each_user, positive_losses
from accord_lab.names import Floats

BINS = 512  # losses from 0 to 1 are counted in so many before they are fitted
STEPS = 200
LEAST_VARIANCE = 1e-4


class DropConfig(BaseConfig):
    drop: float = Field(0.2, ge=0, le=0.5, description="most of a batch that is dropped")
    ramp: int = Field(30_000, ge=1, description="steps until that much is dropped")


class Drops(Method):
    """Drops a share of the positives that grows with the steps."""

    recordable = True  # not shardable: it drops the largest values of a whole batch

    per_run: ClassVar[tuple[str, ...]] = ("drop", "ramp")
    drop: Tensor
    ramp: Tensor
    step: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def begin_step(self, step: int) -> str:
        self.step.fill_(step)
        return super().begin_step(step)

    def order(self, batch: Batch, real: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each positive by its value, the largest first [R, P], and how many are dropped [R, 1]."""
        rate = self.drop * (self.step / self.ramp).clamp(max=1)  # [R, 1]
        values, count = _suspects(batch, real, values)
        place = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
        return place, (rate * count).floor()

    def mean_of_rest(self, batch: Batch, losses: Tensor, count: Tensor) -> Tensor:
        """One mean over the `count` [R] losses that are left, or their sum; the others are 0: [R, P + N] -> [R]."""
        total = sums(batch.weighted(losses))
        # twice, to weigh against L2 as the two means of the other methods do
        return total if self.rules.reduction == "sum" else 2 * total / count.clamp(min=1)


def _suspects(batch: Batch, real: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """What may be dropped, the largest values first: those of positives [R, P], a labelled one last of all; and of how
    many pairs a share is dropped [R, 1]: of all that are there (`real`: [R, P + N]), less two for each labelled one."""
    count, labels = real.sum(1, keepdim=True), labels_of(batch)
    if labels is None:
        return values, count
    labelled = (labels.present * real[:, : batch.num_positives]).sum(1, keepdim=True)
    return values.masked_fill(labels.present, -1.0), count - 2 * labelled


class TCE(Drops):
    name = "tce"
    summary = "truncated cross-entropy: the positives with the largest loss are dropped"

    class Config(DropConfig):
        rate: Literal["fixed", "mixture"] = Field(
            "fixed", description="what is dropped in the end: `drop`, or the share of noise that a mixture finds"
        )

        omit_when_default = ("rate",)

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.log = build.train

    def begin_epoch(self, epoch: int) -> None:
        if self.config.rate == "fixed":
            return
        counts = counts_for(self.log) * ~labelled(self.log)
        for run, losses in enumerate(positive_losses(self, self.log)):
            self.drop[run] = noise_share(losses, self.log.ptr, counts) / 2  # of a batch, half of which is negatives

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        real = torch.ones_like(losses) if batch.mask is None else batch.mask
        place, num_dropped = self.order(batch, real, (losses * real)[:, : batch.num_positives].detach())
        selected = real.clone()
        selected[:, : batch.num_positives] *= place >= num_dropped
        return self.mean_of_rest(batch, losses * selected, selected.sum(1))


class RCE(Method):
    name = "rce"
    summary = "re-weighted cross-entropy: pairs that the model disbelieves weigh less"
    recordable = True
    shardable = True

    class Config(BaseConfig):
        beta: float = Field(0.25, ge=0, description="power of the model's own probability in the weight")

    per_run = ("beta",)
    beta: Tensor

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        weights = torch.exp(-losses.detach() * self.beta)  # exp(-BCE) is f for a positive and 1 - f for a negative
        if (labels := labels_of(batch)) is not None:  # a labelled pair is not doubted
            weights[:, : batch.num_positives].masked_fill_(labels.present, 1.0)
        return self.reduced(batch, weights * losses)


class DCF(Drops):
    """Drops positives by their loss over all epochs, and takes the worst of them for what was never wanted.

    A positive is judged by the mean m of log(1 + loss + loss^2 / 2) over the t epochs so far, less a bound

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


def noise_share(losses: Floats, ptr: IntArray, counts: Floats) -> float:
    """How much of a log is noise (SGDL): the share of the Gaussian with the larger mean, of two in the losses [n].
    Losses are first brought to 0 to 1 within each user, the smallest and the largest. Users whose losses are all the
    same tell nothing; where nobody's do, the share is 0."""
    low, high = (of_each_user(losses, ptr, reduce) for reduce in (np.minimum, np.maximum))
    tells = high > low
    if not (counts[tells] > 0).any():
        return 0.0
    scaled = (losses[tells] - low[tells]) / (high[tells] - low[tells])
    heights, edges = np.histogram(scaled, BINS, (0.0, 1.0), weights=counts[tells])
    return _upper_share((edges[:-1] + edges[1:]) / 2, heights)


def _upper_share(x: Floats, heights: Floats) -> float:
    """Weight of the upper of two Gaussians that are fitted to points [n], each as often as `heights` says, by EM."""
    whole = heights.sum()
    mean, variance, share = np.array([0.25, 0.75]), np.array([0.05, 0.05]), np.array([0.5, 0.5])
    for _ in range(STEPS):
        logs = np.log(np.maximum(share, 1e-300)) - 0.5 * ((x[:, None] - mean) ** 2 / variance + np.log(variance))
        belongs = np.exp(logs - logs.max(1, keepdims=True))
        belongs *= (heights / belongs.sum(1))[:, None]  # [n, 2]
        size = np.maximum(belongs.sum(0), 1e-12)
        share, mean = size / whole, (belongs * x[:, None]).sum(0) / size
        variance = np.maximum((belongs * (x[:, None] - mean) ** 2).sum(0) / size, LEAST_VARIANCE)
    return float(share[np.argmax(mean)])
