"""GMF: matrix factorisation with a learned weight for each dimension."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from accord.models.base import Model, Setup
from accord.models.mf import FactorConfig
from accord.nn.layers import Embedding, Linear, pair_dot


class GMF(Model):
    name = "gmf"
    summary = "generalised matrix factorisation: a linear layer on the element-wise product"
    recordable = True
    only_looks_up = True
    Config = FactorConfig

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.user = Embedding(setup.runs, setup.num_users, config.dim)
        self.item = Embedding(setup.runs, setup.num_items, config.dim)
        self.out = Linear(setup.runs, config.dim, 1, start="kaiming")

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return pair_dot(self.user, self.item, users, items, self.out.weight.squeeze(-1)) + self.out.bias

    def score_all(self, users: Tensor) -> Tensor:
        weighted = self.user.weight[:, users] * self.out.weight.mT  # the output weights fold into the users
        return (weighted @ self.item.weight.mT).add_(self.out.bias.unsqueeze(-1))  # in place: it may be large

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return self.user(users) * self.out.weight.mT, self.item.weight

    def item_vectors(self) -> Tensor:
        # a dimension counts as much as the output layer makes of it
        return self.item.weight[0] * self.out.weight[0].abs().sqrt().T
