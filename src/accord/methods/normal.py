"""Plain training, and what is built from it: other negatives, averaged runs, the first stage of another method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.sampling import Batch
from accord.methods.base import Build, Method, cross_entropy
from accord.models.base import Model
from accord.protocol import OwnRules, Protocol, rule


class Normal(Method):
    name = "normal"
    summary = "plain binary cross-entropy: every interaction is believed"
    recordable = True
    shardable = True

    def loss(self, batch: Batch) -> Tensor:
        return self.reduced(batch, cross_entropy(self.target(batch.users, batch.items), batch))


class WBPRRules(OwnRules):
    """What the paper does not say of WBPR."""

    wbpr_added: float = rule(
        0.05,
        0.0,
        "an item is drawn as a negative of WBPR in proportion to the share of users who took it, plus this",
        before=0.0,
    )


class WBPR(Normal):
    name = "wbpr"
    summary = "cross-entropy with negatives in proportion to popularity: a popular item not taken is not wanted"
    Rules = WBPRRules

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.popularity = protocol.own(self.Rules).wbpr_added


class Ensemble(Normal):
    name = "ensemble"
    summary = "the mean probability of two plain runs with different seeds"
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


class Pretrain(Normal):
    """Plain training of a network that another method needs first."""

    name = "pretrain"
    summary = "the first stage of DeCA(p)"

    def __init__(self, target: Model, protocol: Protocol) -> None:
        torch.nn.Module.__init__(self)
        self.target, self.protocol = target, protocol
        self.rules = protocol.own(target.Rules)
