"""DeCA for a target that is trained by softmax: an interaction counts as much as agreement says that it is real. In a
batch of interactions and as many pairs drawn evenly, a softmax holds a pair for an interaction with probability
f = sigmoid(log I − ℓ), where ℓ is the pair's loss. docs/method.md says what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.data.sampling import Batch
from accord.methods.base import Method
from accord.methods.deca import DeCA
from accord.methods.labels import labels_of
from accord.methods.partner import SCORED_AT_ONCE, SolvedPartner
from accord.methods.softmax import Softmax, counts_of


class DeCASoftmax(Softmax, DeCA):
    name = "deca-softmax"
    summary = "softmax in which an interaction counts as much as agreement says that it is real"
    recordable = False
    per_run = ("temperature", "alpha")
    begin_step = Method.begin_step

    class Config(Softmax.Config):
        alpha: float = Field(0.5, ge=0, le=1, description="α: share of the second opinion in what is agreed on")
        g: str = Field(
            "mf", description="the second opinion, any model: learned beside the target, or solved and frozen"
        )
        h: str = Field("mf", description="model of the corruption networks h and h′: any learned model")
        corruption: bool = Field(True, description="whether h and h′ have a say in what interactions count")

    def loss(self, batch: Batch) -> Tensor:
        size, f, p = batch.num_positives, self._logits(batch), self.opinion(batch)
        agreed = ((1 - self.alpha) * f + self.alpha * p).detach()
        observed = torch.arange(f.shape[1], device=f.device) < size
        log_h, log_real = self._likelihoods(batch.users, batch.items, observed)
        r = torch.sigmoid(agreed)
        q = torch.sigmoid(agreed + (log_real - log_h).detach() * self.config.corruption)[:, :size]
        if (labels := labels_of(batch)) is not None:
            q = q.masked_fill(labels.present, 1.0)  # what a label says is in the counts already
            r = torch.cat([torch.where(labels.present, labels.r.to(r), r[:, :size]), r[:, size:]], 1)
        counts = counts_of(batch) * q
        terms = -r * log_real - (1 - r) * log_h
        if not isinstance(self.partner, SolvedPartner):
            terms = terms + F.binary_cross_entropy_with_logits(p, r, reduction="none")
        losses = math.log(self.target.num_items) - f[:, :size]
        return (losses * counts).sum(1) / counts.sum(1).clamp(min=1e-12) + batch.mean(terms)

    def _logits(self, batch: Batch) -> Tensor:
        """Logits of f: [R, P + N]. A user's pairs are put next to each other, for one sum over the catalogue."""
        users, items = (x.reshape(len(x), 2, -1).mT.reshape(len(x), -1) for x in (batch.users, batch.items))
        losses = self._losses(Batch(users, items, users.shape[1]))
        return math.log(self.target.num_items) - losses.view(len(users), -1, 2).mT.reshape(users.shape)

    def _likelihoods(self, users: Tensor, items: Tensor, observed: Tensor) -> Sequence[Tensor]:
        """log P of what was observed of each pair, by h and by h': [R, B]."""
        networks = (network(users, items) for network in (self.h, self.h_real))
        return [F.logsigmoid(torch.where(observed, x, -x)) for x in networks]

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        some, place = torch.unique(users, return_inverse=True)
        blocks = torch.split(some, max(1, SCORED_AT_ONCE // self.target.num_items))
        total = [torch.logsumexp(self.target.score_all(x) / self.temperature.unsqueeze(2), 2) for x in blocks]
        scores = self.target(users, items) / self.temperature
        f = math.log(self.target.num_items) + scores - torch.cat(total, 1).gather(1, place)
        log_h, log_real = self._likelihoods(users, items, torch.tensor(True, device=users.device))
        return torch.sigmoid(f + (log_real - log_h) * self.config.corruption)
