"""LightGCN: embeddings propagated over the interaction graph, no weights between the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from accord.data.csr import Csr
from accord.kernels.lookups import row_dot, take_rows
from accord.models.base import MOST_WIDE, Model, Setup
from accord.models.mf import ProductOrCosine, biased, start_from_factors, with_bias
from accord.nn.graph import Graph, propagate
from accord.nn.layers import Embedding, unit


class LightGCN(Model):
    name = "lightgcn"
    summary = "embeddings averaged over the layers of a linear graph convolution"
    recordable = True
    reads_history = True

    class Config(ProductOrCosine):
        dim: int = Field(64, ge=1, le=MOST_WIDE, description="width of the embeddings")
        num_layers: int = Field(3, ge=1, description="propagation steps")

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.user = Embedding(setup.runs, setup.num_users, config.dim, std=0.1)
        self.item = Embedding(setup.runs, setup.num_items, config.dim, std=0.1)
        self.bias = Embedding(setup.runs, setup.num_items, 1, std=0.0) if config.item_bias else None
        self.graph = interaction_graph(setup.train)
        self._cached: tuple[tuple[int, int], dict[int | None, Tensor]] | None = None
        self._item_counts = torch.from_numpy(setup.train.popularity())

    def begin(self, train: Csr) -> None:
        if self.config.start == "factors":
            start_from_factors(train, self.user.weight, self.item.weight)

    def propagated(self, num_layers: int | None = None) -> Tensor:
        """The vectors of users, then items, after propagation by all layers, or by the first: [R, U + I, dim]."""
        nodes = torch.cat([self.user.weight, self.item.weight], 1)
        layers = self.config.num_layers if num_layers is None else num_layers
        vectors = propagate(self.graph, nodes, layers)
        return self._scaled(vectors) if num_layers is None else vectors

    def _scaled(self, vectors: Tensor) -> Tensor:
        return unit(vectors) if self.config.scores == "cosine" else vectors

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        vectors = self._current()
        return biased(row_dot(vectors, vectors, users, items + self.num_users), self.bias, items)

    def _current(self) -> Tensor:
        """The propagated vectors, with gradients where they are wanted."""
        return self.propagated() if self.training or torch.is_grad_enabled() else self._vectors()

    def score_all(self, users: Tensor) -> Tensor:
        vectors = self._vectors()
        return biased(vectors.index_select(1, users) @ vectors[:, self.num_users :].mT, self.bias)

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self._current()
        return with_bias(take_rows(vectors, users), vectors[:, self.num_users :], self.bias)

    def item_vectors(self) -> Tensor:
        return self.propagated()[0, self.num_users :]

    def _vectors(self, num_layers: int | None = None) -> Tensor:
        """The propagated vectors, computed once between two changes of the weights."""
        versions = (self.user.weight._version, self.item.weight._version)
        if self._cached is None or self._cached[0] != versions:
            self._cached = versions, {}
        cache = self._cached[1]
        if num_layers not in cache:
            cache[num_layers] = self.propagated(num_layers)
        return cache[num_layers]

    def train(self, mode: bool = True) -> LightGCN:
        if mode or self.training:
            self._cached = None  # a recorded step changes weights without a new version
        return super().train(mode)

    def fold_in(self, history: Tensor) -> Tensor:
        # A newcomer's own vector is zero, so it is the mean of what its items send it: their layers but the last.
        num_layers = self.config.num_layers
        sent = self._vectors(num_layers - 1)[:, self.num_users :]  # [R, I, dim]: the mean of num_layers layers
        counts = self._item_counts.to(history.device)[history] + 1
        weight = 1 / torch.sqrt(counts * len(history))
        vector = torch.einsum("rnd,n->rd", sent[:, history], weight.to(sent)) * num_layers / (num_layers + 1)
        scores = torch.einsum("rd,rid->ri", self._scaled(vector), self._vectors()[:, self.num_users :])
        return biased(scores.unsqueeze(1), self.bias).squeeze(1)


def interaction_graph(train: Csr) -> Graph:
    """The users, then the items, and an edge for each interaction, which weighs 1 / sqrt(degree * degree)."""
    users, items = train.users, train.items
    weights = 1 / np.sqrt(train.counts[users] * train.popularity()[items].astype(np.float64))
    rows = np.concatenate([users, items + train.num_users])
    columns = np.concatenate([items + train.num_users, users])
    order = np.lexsort((columns, rows))
    starts = np.zeros(train.num_users + train.num_items + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(starts) - 1), out=starts[1:])
    values = np.concatenate([weights, weights])[order].astype(np.float32)
    kind = torch.get_default_dtype()  # as of the vectors
    return Graph(torch.from_numpy(starts), torch.from_numpy(columns[order]), torch.from_numpy(values).to(kind))
