"""MF: matrix factorisation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.models.base import MOST_WIDE, Model, Setup
from accord.nn.layers import Embedding, pair_dot, unit

START_OF_COSINES = 0.1  # standard deviation: a cosine's gradient is divided by the length of the vector


class FactorConfig(BaseConfig):
    dim: int = Field(32, ge=1, le=MOST_WIDE, description="width of the embeddings")


class ProductOrCosine(BaseConfig):
    scores: Literal["product", "cosine"] = Field("product", description="products of the vectors, or their cosines")
    omit_when_default: ClassVar[tuple[str, ...]] = ("scores",)


class MFConfig(FactorConfig, ProductOrCosine):
    pass


class MF(Model):
    name = "mf"
    summary = "matrix factorisation: the dot product or cosine of a user and an item vector"
    recordable = True
    only_looks_up = True
    shardable = True
    Config = MFConfig

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.cosine = config.scores == "cosine"
        std = START_OF_COSINES if self.cosine else 0.01
        self.user = Embedding(setup.runs, setup.users, config.dim, std=std)
        self.item = Embedding(setup.runs, setup.items, config.dim, std=std)

    def _scaled(self, vectors: Tensor) -> Tensor:
        return unit(vectors) if self.cosine else vectors

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if self.cosine:
            return (self._scaled(self.user(users)) * self._scaled(self.item(items))).sum(-1)
        return pair_dot(self.user, self.item, users, items)

    def score_all(self, users: Tensor) -> Tensor:
        return self._scaled(self.user.weight[:, users]) @ self._scaled(self.item.whole).mT

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return self._scaled(self.user(users)), self._scaled(self.item.whole)

    def item_vectors(self) -> Tensor:
        return self.item.weight[0]
