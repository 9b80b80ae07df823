"""MF: matrix factorisation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.models.base import MOST_WIDE, Model, Setup
from accord.models.graph_filter import right_singular_vectors
from accord.models.histories import interaction_matrix, power_or_zero
from accord.nn.layers import Embedding, pair_dot, unit

START_OF_COSINES = 0.1  # standard deviation: a cosine's gradient is divided by the length of the vector
ROUNDS = 3  # of the search for factors to start from, which need not be exact
RANDOM = 0.1  # what of a vector is random where it starts from factors


class FactorConfig(BaseConfig):
    dim: int = Field(32, ge=1, le=MOST_WIDE, description="width of the embeddings")


class ProductOrCosine(BaseConfig):
    scores: Literal["product", "cosine"] = Field("product", description="products of the vectors, or their cosines")
    start: Literal["random", "factors"] = Field(
        "random", description="where vectors start: at random, or near the factors of the graph of users and items"
    )
    item_bias: bool = Field(False, description="a learned bias for each item, added to its scores")
    omit_when_default: ClassVar[tuple[str, ...]] = ("scores", "start", "item_bias")


def with_bias(users: Tensor, items: Tensor, bias: Embedding | None) -> tuple[Tensor, Tensor]:
    """Vectors of users and items, with one more dimension by which their products have the bias of each item."""
    return (users, items) if bias is None else (F.pad(users, (0, 1), value=1.0), torch.cat([items, bias.weight], -1))


def biased(scores: Tensor, bias: Embedding | None, items: Tensor | None = None) -> Tensor:
    """Scores with the bias of each item: of pairs with these items [R, B], or [R, B, I] with all."""
    if bias is None:
        return scores
    return scores.add_(bias.weight.mT) if items is None else scores + bias(items).squeeze(-1)


def start_from_factors(train: Csr, users: nn.Parameter | None, *items: nn.Parameter) -> None:
    """Turn tables of users and items, [R, rows, dim], to the first singular vectors of Du^-1/2 X Di^-1/2: half of the
    epochs that a random start takes. Rows stay as long as they are."""
    x = interaction_matrix(train).astype(np.float32)
    degrees = (power_or_zero(x.sum(axis, dtype=np.float64).A1, -0.5) for axis in (1, 0))
    of_users, of_items = (sp.diags_array(each.astype(np.float32)) for each in degrees)
    scaled = of_users @ x @ of_items
    right = right_singular_vectors(scaled, items[0].shape[-1], ROUNDS)
    left = scaled @ right
    root = np.sqrt(np.linalg.norm(left, axis=0)).clip(min=1e-6)
    if users is not None:
        _turn(users, torch.from_numpy(left / root))
    for table in items:
        _turn(table, torch.from_numpy(right * root * (train.popularity() > 0)[:, None]))


@torch.no_grad()
def _turn(table: nn.Parameter, vectors: Tensor) -> None:
    """Give the rows of a table the directions of vectors [rows, dim or fewer], those of 0 none."""
    lengths = torch.linalg.vector_norm(table, dim=-1, keepdim=True)
    wide = F.pad(unit(vectors.to(table)), (0, table.shape[-1] - vectors.shape[1]))
    table.copy_(unit(wide + RANDOM * unit(table)) * lengths)


class MF(Model):
    name = "mf"
    summary = "matrix factorisation: the dot product or cosine of a user and an item vector"
    recordable = True
    only_looks_up = True

    class Config(FactorConfig, ProductOrCosine):
        pass

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.cosine = config.scores == "cosine"
        std = START_OF_COSINES if self.cosine else 0.01
        self.user = Embedding(setup.runs, setup.num_users, config.dim, std=std)
        self.item = Embedding(setup.runs, setup.num_items, config.dim, std=std)
        self.bias = Embedding(setup.runs, setup.num_items, 1, std=0.0) if config.item_bias else None

    def begin(self, train: Csr) -> None:
        if self.config.start == "factors":
            start_from_factors(train, self.user.weight, self.item.weight)

    def _scaled(self, vectors: Tensor) -> Tensor:
        return unit(vectors) if self.cosine else vectors

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if self.cosine:
            scores = (self._scaled(self.user(users)) * self._scaled(self.item(items))).sum(-1)
        else:
            scores = pair_dot(self.user, self.item, users, items)
        return biased(scores, self.bias, items)

    def score_all(self, users: Tensor) -> Tensor:
        return biased(self._scaled(self.user.weight[:, users]) @ self._scaled(self.item.weight).mT, self.bias)

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return with_bias(self._scaled(self.user(users)), self._scaled(self.item.weight), self.bias)

    def item_vectors(self) -> Tensor:
        return self.item.weight[0]
