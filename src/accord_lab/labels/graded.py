"""DeCA with a real preference of several grades (one to five stars): an experiment, see docs/method.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from accord.data.sampling import Batch
from accord.kernels.agreement import log
from accord.methods.base import Build
from accord.methods.deca import DeCA
from accord.methods.known import labels_of
from accord.protocol import Protocol


class GradedDeCA(DeCA):
    """r is one of G grades. The score s of f says P(r >= c) = sigmoid(s - b_c), and the chance that grade c is observed
    lies between h (the lowest grade) and h' (the highest), in logits."""

    name = "deca-grades"
    summary = "DeCA whose real preference has grades"
    recordable = False
    shardable = False

    class Config(DeCA.Config):
        grades: int = Field(5, ge=2, description="grades of a preference; labels 0 to 1 are rounded to one of them")
        real: int = Field(4, ge=2, description="grades from this one on are real")

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        steps = self.config.grades - 1
        self.first = nn.Parameter(torch.full((len(self.target.seeds), 1), -1.0))
        self.steps = nn.Parameter(torch.zeros(len(self.target.seeds), steps - 1))  # softplus of them: the b rise

    def grades_of(self, scores: Tensor) -> Tensor:
        """Scores [R, B] -> the chance of each grade: [R, B, G]."""
        bounds = torch.cat([self.first, self.first + F.softplus(self.steps).cumsum(1)], 1)
        above = torch.sigmoid(scores.unsqueeze(-1) - bounds.unsqueeze(1))
        ends = torch.ones_like(above[..., :1])
        return torch.cat([ends, above], -1) - torch.cat([above, torch.zeros_like(ends)], -1)

    def seen(self, users: Tensor, items: Tensor) -> Tensor:
        """The chance that each grade is observed: [R, B, G]."""
        share = torch.linspace(0, 1, self.config.grades, device=users.device)
        low, high = self.h(users, items).unsqueeze(-1), self.h_real(users, items).unsqueeze(-1)
        return torch.sigmoid(low + (high - low) * share)

    def loss(self, batch: Batch) -> Tensor:
        pairs, size = (batch.users, batch.items), batch.num_positives
        f, p = self.grades_of(self.target(*pairs)), self.grades_of(self.opinion(batch))
        alpha = self.alpha.unsqueeze(-1)
        disagree = ((alpha * p - (1 - alpha) * f) * (log(p) - log(f))).sum(-1)
        seen = self.seen(*pairs)
        likely = torch.cat([log(seen[:, :size]), log(1 - seen[:, size:])], 1)  # of what was observed, by grade
        fixed = torch.zeros_like(likely[..., 0])
        if self.phase == "dp":  # what is liked most is held to be observed
            fixed[:, size:] = -self.c1
            likely = torch.cat([likely[..., :-1], fixed.unsqueeze(-1)], -1)
        elif self.phase == "dn":  # and what is liked least is not
            fixed[:, :size] = -self.c2
            likely = torch.cat([fixed.unsqueeze(-1), likely[..., 1:]], -1)
        terms = disagree - (f * likely).sum(-1)
        if (labels := labels_of(batch)) is not None:
            grade = (labels.r * (self.config.grades - 1)).round().long().unsqueeze(-1)
            observed = [x[:, :size].gather(-1, grade).squeeze(-1) for x in (log(f), log(p), likely)]
            terms = torch.cat([torch.where(labels.present, -sum(observed), terms[:, :size]), terms[:, size:]], 1)
        return batch.mean(terms)

    def posterior(self, users: Tensor, items: Tensor) -> Tensor:
        both = self.grades_of(self.target(users, items)) * self.seen(users, items)
        return both[..., self.config.real - 1 :].sum(-1) / both.sum(-1).clamp(min=1e-30)
