"""MF: matrix factorisation."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.kernels.score_buffer import product
from accord.models.base import MOST_WIDE, Model, Setup
from accord.nn.layers import Embedding, pair_dot


class FactorConfig(BaseConfig):
    dim: int = Field(32, ge=1, le=MOST_WIDE, description="width of the embeddings")


class MF(Model):
    name = "mf"
    summary = "matrix factorisation: the dot product of a user and an item vector"
    recordable = True
    only_looks_up = True
    shardable = True
    Config = FactorConfig

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.user = Embedding(setup.runs, setup.users, config.dim)
        self.item = Embedding(setup.runs, setup.items, config.dim)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return pair_dot(self.user, self.item, users, items)

    def score_all(self, users: Tensor) -> Tensor:
        return product(self.user.weight[:, users], self.item.whole.mT)

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return self.user.weight[0, users], self.item.weight[0]

    def item_vectors(self) -> Tensor:
        return self.item.weight[0]
