"""What a method is: it turns the scores of its networks into a loss. It knows no training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from typing import Protocol as TypingProtocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.data.sampling import Batch, Negatives, TrainingPairs, sums
from accord.errors import InputError
from accord.methods.labels import targets
from accord.models import ModelSpec, build_model, is_solved
from accord.models.base import Model, Setup
from accord.nn.layers import Trainable
from accord.protocol import OwnRules, Protocol


@dataclass(frozen=True)
class Build:
    method: str | None  # its name
    model: ModelSpec  # the target's kind
    options: Mapping[str, Any]  # of the target
    setup: Setup

    def __call__(self, spec: ModelSpec | None = None, purpose: str = "target", solved: bool = False) -> Model:
        """A model of a kind, the target's if none is given; `solved`: whether one that is solved will do."""
        if spec is None:
            return build_model(self.model, dict(self.options), self.setup, purpose)
        if is_solved(spec) and not solved:
            raise InputError(f"method '{self.method}' trains its networks, and model '{spec}' is solved; give another.")
        return build_model(spec, {}, self.setup, purpose)

    @property
    def train(self) -> Csr:
        return self.setup.train


class TrainingContext(TypingProtocol):
    """What training gives a method to be trained with: see `Method.stages`."""

    def train(self, stage: Method) -> None:
        """Train the networks of a stage with its loss. The method itself is the last stage."""

    def solve(self, model: Model) -> None:
        """Solve a model on the training interactions, with their weights."""

    def set_column(self, name: str, values: npt.NDArray[np.float64]) -> None:
        """Let the batches of later stages carry a column of the training interactions, `weight` for instance: [n]."""

    @property
    def train_pairs(self) -> Csr:
        """The training interactions."""

    @property
    def validation_pairs(self) -> Csr:
        """The validation pairs, by the rules of the protocol."""


class Method(Trainable):
    """Trains `target`, the network that recommends, and whatever networks it needs beside it.

    >>> from accord.methods.base import cross_entropy
    >>> class Half(accord.Method):
    ...     name, summary = "half", "plain cross-entropy, halved"
    ...     def loss(self, batch):
    ...         return self.reduced(batch, cross_entropy(self.target(batch.users, batch.items), batch) / 2)
    >>> rec = accord.fit(accord.load("demo"), "mf", Half, epochs=1)
    """

    name: ClassVar[str]
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    summary: ClassVar[str]
    Rules: ClassVar[type[OwnRules]] = OwnRules  # what it alone obeys of the protocol
    num_stages: int = 1  # trainings that `stages` asks for; their random streams are named by it
    members: ClassVar[int] = 1  # networks trained for each run, averaged when scoring
    per_run: ClassVar[tuple[str, ...]] = ()  # options that may differ between runs: each is a [R, 1] buffer of its name
    columns: ClassVar[tuple[str, ...]] = ()  # of the interactions, that its batches carry besides weights and labels
    models: ClassVar[tuple[str, ...]] = ()  # options that name models besides the target
    batching: ClassVar[Literal["pairs", "users"] | None] = None  # what batches are made of; None: as the target asks
    negatives: Callable[[TrainingPairs], Negatives] | None = None  # what draws them, if not the protocol's rule
    learns: ClassVar[bool] = True  # by a training loop: it has seeds, epochs and something to stop by
    notes: Sequence[str] = ()  # what a user should know of how it was trained

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        """`configs`: one per run; only options named in `per_run` may differ."""
        super().__init__()
        self.config = configs[0]
        self.protocol = protocol
        for name in self.per_run:
            self.register_buffer(name, column(configs, name), persistent=False)
        self.target = build(purpose="target")
        self.rules = protocol.rules_of(self.target.Rules)  # how a run with this target is treated

    def stages(self, context: TrainingContext) -> None:
        context.train(self)

    def decay(self, l2: Tensor) -> dict[nn.Parameter, Tensor]:
        """The gradient of the penalty on the target as a factor [R] of each parameter."""
        parameters = self.target.parameters()
        if self.rules.penalty == "norm":  # l2 * |theta|
            return {p: l2 / sums(p.detach().flatten(1).square()).sqrt().clamp(min=1e-12) for p in parameters}
        return dict.fromkeys(parameters, l2 / self.target.num_users)  # l2 / 2 * sum(theta^2) / users

    def reduced(self, batch: Batch, losses: Tensor) -> Tensor:
        """The plain loss of a batch, [R, P + N] -> [R]: as the rules of the target have it."""
        return batch.sum(losses) if self.rules.reduction == "sum" else batch.mean(losses)

    def score_all(self, users: Tensor) -> Tensor:
        """Logits of every item for users [B]: [R, B, I]."""
        return self.target.score_all(users)

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        """Probability that an observed interaction is a real preference: [R, B]."""
        return torch.sigmoid(self.target(users, items))


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """BCE of each pair, against its label where it has one: [R, P + N]."""
    return F.binary_cross_entropy_with_logits(logits, targets(batch, logits), reduction="none")


def column(configs: Sequence[Any], name: str) -> Tensor:
    """A hyperparameter of each run as [R, 1], to go with [R, B]."""
    return torch.tensor([[float(getattr(config, name))] for config in configs])
