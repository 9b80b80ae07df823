"""PLD: of a few interactions of a user, trains on one that the model believes rather than on any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.sampling import Batch
from accord.methods.base import Build, Method, cross_entropy
from accord.methods.labels import labelled, labels_of
from accord.nn.layers import Streams
from accord.protocol import Protocol
from accord_lab.methods.whole_log import counts_for


class PLD(Method):
    """In the place of each positive: one of k interactions of its user, drawn with chance ~ exp(-loss / T).
    A labelled one keeps its place, and is drawn into no other."""

    name = "pld"
    summary = "cross-entropy on interactions drawn anew within each user, those that the model believes more often"
    columns = ("place",)
    # neither shardable nor recordable: how many numbers a run draws is counted on the host

    class Config(BaseConfig):
        k: int = Field(5, ge=1, le=1000, description="interactions of the user that one is chosen from")
        temperature: float = Field(1.0, gt=0, description="T: small prefers what the model believes, large is any")

    per_run = ("temperature",)
    temperature: Tensor
    labelled: Tensor
    ptr: Tensor
    items: Tensor
    counts: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        train = build.train
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)
        self.register_buffer("counts", torch.from_numpy(counts_for(train)).float(), persistent=False)
        self.register_buffer("labelled", torch.from_numpy(labelled(train)), persistent=False)
        self.draws = Streams(self.target.seeds, "pld")

    def loss(self, batch: Batch) -> Tensor:
        chosen = self._chosen(batch)
        items = torch.cat([self.items[chosen].long(), batch.items[:, batch.num_positives :]], 1)
        weight = {"weight": self.counts[chosen]} if "weight" in batch.columns else {}
        batch = batch._replace(items=items, columns={**batch.columns, **weight})
        return self.reduced(batch, cross_entropy(self.target(batch.users, items), batch))

    @torch.no_grad()
    def _chosen(self, batch: Batch) -> Tensor:
        """The places in the log of the interactions that are trained on: [R, P]."""
        runs, size, k = len(batch.users), batch.num_positives, self.config.k
        users = batch.users[:, :size]
        numbers = self._numbers(batch, k + 1)  # [R, P, k + 1]
        starts, lengths = self.ptr[users], self.ptr[users + 1] - self.ptr[users]
        within = (numbers[..., :k] * lengths.unsqueeze(-1)).long()
        drawn = starts.unsqueeze(-1) + torch.minimum(within, lengths.unsqueeze(-1) - 1)  # [R, P, k]
        logits = self.target(users.repeat_interleave(k, 1), self.items[drawn.view(runs, -1)].long())
        believed = torch.softmax(-F.softplus(-logits).view(runs, size, k) / self.temperature.unsqueeze(-1), -1)
        labels = labels_of(batch)
        if labels is None:
            return drawn.gather(-1, _choice(believed, numbers[..., k:])).squeeze(-1)
        believed = believed.masked_fill(self.labelled[drawn], 0.0)  # each has a place of its own
        total = believed.sum(-1, keepdim=True)
        chosen = drawn.gather(-1, _choice(believed, numbers[..., k:] * total)).squeeze(-1)
        return torch.where(labels.present | (total.squeeze(-1) == 0), batch.column("place"), chosen)

    def _numbers(self, batch: Batch, each: int) -> Tensor:
        """Random numbers, `each` for every positive that is no padding: no run depends on its neighbours."""
        runs, size, device = len(batch.users), batch.num_positives, batch.users.device
        if batch.mask is None:
            return self.draws.uniform([size * each] * runs, device).view(runs, size, each)
        there = batch.mask[:, :size] > 0
        numbers = torch.zeros(runs, size, each, device=device)
        numbers[there] = self.draws.uniform((there.sum(1) * each).tolist(), device).view(-1, each)
        return numbers


def _choice(believed: Tensor, numbers: Tensor) -> Tensor:
    """Which of the candidates [R, P, k] numbers [R, P, 1] from 0 to their sum stand for: [R, P, 1]."""
    return (believed.cumsum(-1) < numbers).sum(-1, keepdim=True).clamp(max=believed.shape[-1] - 1)
