"""What methods know of all training interactions at once: the loss of each, and statistics of users and items. UDT and
EARD weigh interactions by these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr, IntArray, Rows
from accord.data.sampling import Batch
from accord.methods.base import Build, Method, cross_entropy
from accord.methods.labels import labelled
from accord.protocol import Protocol
from accord_lab.names import Floats

PAIRS_AT_ONCE = 2**18  # over all runs


@torch.no_grad()
def positive_losses(method: Method, train: Csr) -> Floats:
    """The cross-entropy of every training interaction by the target as it recommends: [runs, n]."""
    runs, users = len(method.target.seeds), train.owners
    device = next(method.target.parameters()).device
    result = np.empty((runs, len(train.items)))
    method.eval()
    for start in range(0, len(train.items), max(1, PAIRS_AT_ONCE // runs)):
        part = slice(start, start + max(1, PAIRS_AT_ONCE // runs))
        pairs = [torch.from_numpy(np.asarray(rows[part], dtype=np.int64)).to(device) for rows in (users, train.items)]
        logits = method.target(*(rows.expand(runs, -1) for rows in pairs))
        result[:, part] = F.softplus(-logits).double().cpu().numpy()
    return result


def counts_for(train: Csr) -> Floats:
    """What each training interaction counts for: [n]."""
    weight = train.columns.get("weight")
    return np.ones(len(train.items)) if weight is None else np.asarray(weight, dtype=np.float64)


def standing(losses: Floats, rows: Rows, size: int, counts: Floats) -> Floats:
    """Where the users (or items) stand by their mean loss: 0 for the smallest, 1 for the largest; [size].
    `rows` says whose each interaction is. Of equal means the first comes first; who has nothing that counts is at 0."""
    total = np.bincount(rows, counts, size)
    there = total > 0
    mean = np.bincount(rows, counts * losses, size)[there] / total[there]
    place = np.empty(len(mean))
    place[np.argsort(mean, kind="stable")] = np.arange(len(mean))
    result = np.zeros(size)
    result[there] = place / max(1, len(mean) - 1)
    return result


def of_each_user(values: Floats, ptr: IntArray, ufunc: np.ufunc) -> Floats:
    """A reduction (np.maximum, np.minimum, np.add) over the interactions of each user, at each of these: [n]."""
    starts = ptr[:-1][np.diff(ptr) > 0]
    if not len(starts):
        return values
    result: Floats = np.repeat(ufunc.reduceat(values, starts), np.diff(ptr)[np.diff(ptr) > 0])
    return result


class WeighsByLoss(Method):
    """Cross-entropy in which a positive counts by a weight that is found before each epoch, from all losses at once."""

    columns = ("place",)
    recordable = True  # not shardable: a weight depends on the losses of all users

    weight: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.log = build.train
        ones = torch.ones(len(self.target.seeds), len(self.log.items))
        self.register_buffer("weight", ones, persistent=False)  # found again from the weights of the networks

    def begin_epoch(self, epoch: int) -> None:
        if epoch < self.config.warmup:
            return
        certain = labelled(self.log)  # they count in full, and say nothing of those that are doubted
        counts = counts_for(self.log) * ~certain
        for run, losses in enumerate(positive_losses(self, self.log)):
            self.weight[run] = torch.from_numpy(np.where(certain, 1.0, self.weights(run, losses, counts)))

    def weights(self, run: int, losses: Floats, counts: Floats) -> Floats:
        """The weights of all training interactions, from their losses and what each counts for: [n] each."""
        raise AssertionError("a method says what its weights are")

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        positive = losses[:, : batch.num_positives] * self.weight.gather(1, batch.column("place"))
        return self.reduced(batch, torch.cat([positive, losses[:, batch.num_positives :]], 1))


class UDT(WeighsByLoss):
    """The interactions of a user share out what the user counts for, by how little the model is surprised.

    Weight of a positive: c_u n_u softmax(-loss / T_u), the softmax over the n_u interactions of its user.

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


class EARD(WeighsByLoss):
    """CrossDenoise: an interaction counts by its own loss, and by those of its user's and its item's others.

    Weight of a positive: (1 - F(loss)) a_u b_i, F being the distribution of all losses.

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
