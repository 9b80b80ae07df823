"""T-CE and R-CE: cross-entropy that drops, or weighs down, the pairs with a large loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.sampling import Batch, sums
from accord.methods.base import Build, Method, cross_entropy
from accord.methods.known import labelled, labels_of
from accord.protocol import Protocol
from accord_lab.methods.noise_rate import noise_share
from accord_lab.methods.whole_log import counts_for, positive_losses


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
