"""EARD (CrossDenoise): an interaction counts by its own loss, and by those of its user's and its item's others."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord_lab.methods.whole_log import Floats, WeighsByLoss, standing


class EARD(WeighsByLoss):
    """Weight of a positive: (1 - F(loss)) a_u b_i, F being the distribution of all losses.

    a_u falls from 1 to alpha as the user stands by the mean loss, b_i from 1 to beta as the item does.
    """

    name = "eard"
    summary = "cross-entropy in which an interaction weighs less the larger its loss, and its user's and item's mean"

    class Config(BaseConfig):
        alpha: float = Field(0.5, ge=0, le=1, description="weight of the user with the largest mean loss")
        beta: float = Field(0.5, ge=0, le=1, description="weight of the item with the largest mean loss")
        warmup: int = Field(10, ge=0, description="epochs of plain training before, in which losses come apart")

    per_run = ("alpha", "beta")
    alpha: Tensor
    beta: Tensor

    def weights(self, run: int, losses: Floats, counts: Floats) -> Floats:
        log = self.log
        user = 1 + standing(losses, log.owners, log.num_users, counts)[log.owners] * (float(self.alpha[run]) - 1)
        item = 1 + standing(losses, log.items, log.num_items, counts)[log.items] * (float(self.beta[run]) - 1)
        order = np.argsort(losses, kind="stable")
        up_to = np.cumsum(counts[order])  # what counts, up to each loss
        total = up_to[-1] if len(up_to) and up_to[-1] > 0 else 1.0
        share: Floats = up_to[np.searchsorted(losses[order], losses, side="right") - 1] / total
        return (1 - share) * user * item
