"""NeuMF: GMF and a multi-layer perceptron side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.models.base import MOST_WIDE, Model, Setup
from accord.nn.layers import Embedding, Linear, pair_dot

PAIRS_AT_ONCE = 2**20  # scored at once on a GPU: times the width of the first layer, half a gigabyte
WITHIN_CACHE = 4_096  # the same on a CPU, where layers work on what is still in the cache


class NeuMF(Model):
    name = "neumf"
    summary = "GMF joined by a linear layer with an MLP on wider embeddings"
    recordable = True
    only_looks_up = True

    class Config(BaseConfig):
        dim: int = Field(32, ge=1, le=MOST_WIDE, description="width of the GMF embeddings and of the MLP's last layer")
        num_layers: int = Field(3, ge=1, le=8, description="MLP layers, each half as wide as the one before")

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        wide = config.dim * 2 ** (config.num_layers - 1)
        self.user = Embedding(setup.runs, setup.num_users, config.dim)
        self.item = Embedding(setup.runs, setup.num_items, config.dim)
        self.wide_user = Embedding(setup.runs, setup.num_users, wide)
        self.wide_item = Embedding(setup.runs, setup.num_items, wide)
        widths = [2 * wide // 2**layer for layer in range(config.num_layers + 1)]
        self.layers = nn.ModuleList(Linear(setup.runs, num_in, num_out) for num_in, num_out in pairwise(widths))
        self.out = Linear(setup.runs, 2 * config.dim, 1, start="kaiming")

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        from_users, of_item = self._first(self.wide_user(users))
        x = torch.baddbmm(from_users, self.wide_item(items), of_item).relu()
        for layer in self.layers[1:]:
            x = layer(x).relu_()
        of_product, of_mlp = torch.split(self.out.weight, self.user.weight.shape[-1], 1)
        product = pair_dot(self.user, self.item, users, items, of_product.squeeze(-1))
        return product + (x @ of_mlp).squeeze(-1) + self.out.bias

    def _first(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer, of the user's vector and the item's side by side, is the sum of its two halves: of vectors
        of users [R, B, wide] the first, and the weights of the second."""
        first = self.layers[0]
        assert isinstance(first, Linear)
        of_user, of_item = torch.split(first.weight, self.wide_user.weight.shape[-1], 1)
        return torch.baddbmm(first.bias.unsqueeze(1), users, of_user), of_item

    def score_all(self, users: Tensor) -> Tensor:
        from_users, of_item = self._first(self.wide_user.weight[:, users])
        from_items = self.wide_item.weight @ of_item
        of_product = self.out.weight[:, : self.user.weight.shape[-1]]
        product = (self.user.weight[:, users] * of_product.mT) @ self.item.weight.mT
        return product.add_(self._mlp_of_all(from_users, from_items)).add_(self.out.bias.unsqueeze(-1))

    def _mlp_of_all(self, from_users: Tensor, from_items: Tensor) -> Tensor:
        """What the MLP gives for every pair, from the two halves of its first layer: [R, B, I]."""
        rest = [(layer.weight, layer.bias) for layer in self.layers[1:] if isinstance(layer, Linear)]
        of_mlp = self.out.weight[:, self.user.weight.shape[-1] :]
        runs, num_users = from_users.shape[:2]
        mlp = from_users.new_empty(runs, num_users, self.num_items)
        block = max(1, (PAIRS_AT_ONCE if from_users.is_cuda else WITHIN_CACHE) // (self.num_items * runs))
        for start in range(0, num_users, block):
            x = (from_users[:, start : start + block, None] + from_items[:, None]).relu_()
            x = x.flatten(1, 2)
            for weight, bias in rest:
                x = (x @ weight).add_(bias.unsqueeze(1)).relu_()
            mlp[:, start : start + block] = (x @ of_mlp).view(runs, -1, self.num_items)
        return mlp

    def item_vectors(self) -> Tensor:
        return torch.cat([F.normalize(self.item.weight[0]), F.normalize(self.wide_item.weight[0])], 1)
