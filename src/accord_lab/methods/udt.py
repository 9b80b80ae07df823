"""UDT: the interactions of a user share out what the user counts for, by how little the model is surprised."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord_lab.methods.whole_log import Floats, WeighsByLoss, of_each_user, standing


class UDT(WeighsByLoss):
    """Weight of a positive: c_u n_u softmax(-loss / T_u), the softmax over the n_u interactions of its user.

    T_u and c_u are linear in where the user stands by the mean loss.
    """

    name = "udt"
    summary = "cross-entropy in which a user's surprising interactions weigh less, the more so the noisier the user"

    class Config(BaseConfig):
        t_clean: float = Field(2.0, gt=0, description="T of the user with the smallest mean loss: large is even-handed")
        t_noisy: float = Field(0.5, gt=0, description="T of the user with the largest mean loss")
        c_noisy: float = Field(0.5, ge=0, le=1, description="c of the user with the largest mean loss; the smallest: 1")
        warmup: int = Field(1, ge=0, description="epochs of plain training before")

    per_run = ("t_clean", "t_noisy", "c_noisy")
    t_clean: Tensor
    t_noisy: Tensor
    c_noisy: Tensor

    def weights(self, run: int, losses: Floats, counts: Floats) -> Floats:
        ptr, owner = self.log.ptr, self.log.owners
        t_clean, t_noisy, c_noisy = (float(option[run]) for option in (self.t_clean, self.t_noisy, self.c_noisy))
        stands = standing(losses, owner, self.log.num_users, counts)[owner]
        scaled = -losses / (t_clean + stands * (t_noisy - t_clean))
        share = np.exp(scaled - of_each_user(scaled, ptr, np.maximum))
        sums = (of_each_user(values, ptr, np.add) for values in (counts, counts * share))
        total, shared = sums
        # a user whose interactions all count for nothing has no weight to share out
        weights: Floats = (1 + stands * (c_noisy - 1)) * total * share / np.where(shared > 0, shared, 1)
        return weights
