"""WBPR and Ensemble, which the paper compares with: plain training with other negatives, or averaged over runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.methods.base import Build
from accord.methods.normal import Normal
from accord.protocol import OwnRules, Protocol, rule
from accord_lab.methods.popular_negatives import PopularNegatives


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
        self.negatives = partial(PopularNegatives, added=protocol.rules_of(self.Rules).wbpr_added)


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

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        return self._mean(self.target(users.repeat(self.members, 1), items.repeat(self.members, 1)))
