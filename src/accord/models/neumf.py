"""NeuMF: GMF and a multi-layer perceptron side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from accord.layers import Embedding, Linear
from accord.models.base import BaseConfig, Model, Setup

PAIRS_AT_ONCE = 65_536  # scored at once: times the width of the first layer, a few dozen megabytes


class NeuMF(Model):
    name = "neumf"
    summary = "GMF joined by a linear layer with an MLP on wider embeddings"
    recordable = True
    only_looks_up = True

    class Config(BaseConfig):
        dim: int = Field(32, ge=1, description="width of the GMF embeddings and of the MLP's last layer")
        num_layers: int = Field(3, ge=1, description="MLP layers, each half as wide as the one before")

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
        x = torch.cat([self.wide_user(users), self.wide_item(items)], -1)
        for layer in self.layers:
            x = layer(x).relu()
        logits: Tensor = self.out(torch.cat([self.user(users) * self.item(items), x], -1))
        return logits.squeeze(-1)

    def score_all(self, users: Tensor) -> Tensor:
        # The first layer is linear before its ReLU, so its user and item halves are computed once each.
        first, *rest = self.layers
        assert isinstance(first, Linear)
        wide = self.wide_user.weight.shape[-1]
        from_users = torch.baddbmm(first.bias.unsqueeze(1), self.wide_user.weight[:, users], first.weight[:, :wide])
        from_items = self.wide_item.weight @ first.weight[:, wide:]
        dim = self.user.weight.shape[-1]
        product = (self.user.weight[:, users] * self.out.weight[:, :dim].mT) @ self.item.weight.mT
        runs, num_users = from_users.shape[:2]
        mlp = product.new_empty(product.shape)
        block = max(1, PAIRS_AT_ONCE // (self.num_items * runs))
        for start in range(0, num_users, block):
            x = (from_users[:, start : start + block, None] + from_items[:, None]).relu_()
            x = x.flatten(1, 2)
            for layer in rest:
                x = layer(x).relu_()
            mlp[:, start : start + block] = (x @ self.out.weight[:, dim:]).view(runs, -1, self.num_items)
        return product + mlp + self.out.bias.unsqueeze(-1)
