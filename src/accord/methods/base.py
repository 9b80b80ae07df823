"""What a method is: it turns the scores of its networks into a loss. It knows no training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.data.sampling import Batch
from accord.models.base import BaseConfig, Model, column
from accord.nn.layers import Trainable
from accord.protocol import Protocol

Build = Callable[
    ..., Model
]  # build(spec=None, purpose="…"): a model on the same data and runs; None: the target's kind


class Method(Trainable):
    """Trains `target`, the network that recommends, and whatever networks it needs beside it."""

    name: ClassVar[str]
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    summary: ClassVar[str]
    members: ClassVar[int] = 1  # networks trained for each run, averaged when scoring
    per_run: ClassVar[tuple[str, ...]] = ()  # options that may differ between runs: each is a [R, 1] buffer of its name
    negatives: ClassVar[Literal["popularity"] | None] = None  # None: as the protocol says
    together: str | None = (
        "it does not say that its loss is a sum over pairs"  # why ranks cannot share a batch; not inherited
    )

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        """`configs`: one a run; only options named in `per_run` may differ."""
        super().__init__()
        self.config = configs[0]
        self.protocol = protocol
        for name in self.per_run:
            self.register_buffer(name, column(configs, name), persistent=False)
        self.target = build(purpose="target")

    def before(self) -> Method | None:
        """What has to be trained first, if anything."""
        return None

    def decay(self, l2: Tensor) -> dict[nn.Parameter, Tensor]:
        """L2 is on the target alone."""
        return self.target.decay(l2)

    def score_all(self, users: Tensor) -> Tensor:
        """Logits of every item for users [B]: [R, B, I]."""
        return self.target.score_all(users)

    def posterior(self, users: Tensor, items: Tensor) -> Tensor:
        """Probability that an observed interaction is a real preference: [R, B]."""
        return torch.sigmoid(self.target(users, items))


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """BCE of each pair: [R, P + N]."""
    labels = torch.zeros_like(logits)
    labels[:, : batch.num_positives] = 1
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def reduce_like(target: Model, batch: Batch, losses: Tensor) -> Tensor:
    """[R, P + N] -> [R], as the target's plain BCE is reduced."""
    return batch.sum(losses) if target.reduction == "sum" else batch.mean(losses)
