"""Plain training, also as the first stage of another method."""

from __future__ import annotations

import torch
from torch import Tensor

from accord.data.sampling import Batch
from accord.errors import InputError
from accord.methods.base import Method, TrainingContext, cross_entropy
from accord.models.base import Model
from accord.protocol import Protocol


class Normal(Method):
    name = "normal"
    summary = "plain binary cross-entropy: every interaction is believed"
    recordable = True

    def loss(self, batch: Batch) -> Tensor:
        return self.reduced(batch, cross_entropy(self.target(batch.users, batch.items), batch))


class Pretrain(Normal):
    name = "pretrain"
    summary = "the first stage of DeCA(p)"

    def __init__(self, target: Model, protocol: Protocol) -> None:
        torch.nn.Module.__init__(self)
        self.target, self.protocol = target, protocol
        self.rules = protocol.rules_of(target.Rules)


class Solve(Method):
    """In the place of a method for a model that is solved: it has no loss, and its scores are no logits."""

    name = "none"
    summary = "the model is solved, not trained"
    learns = False

    def stages(self, context: TrainingContext) -> None:
        context.solve(self.target)

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        raise InputError(f"model '{self.target.name}' gives no probability; train a learned model to find noise.")
