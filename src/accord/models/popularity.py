"""Popularity: the same list for all users, and hard to beat."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr
from accord.models.base import Cost, Model, Setup, Shape


class Popularity(Model):
    name = "popularity"
    summary = "the most interacted items, the same for all users"
    solved = True
    logits = False

    counts: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("counts", torch.zeros(setup.num_items, dtype=torch.float32))

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        counts = train.popularity() if weight is None else np.bincount(train.items, weight, train.num_items)
        self.counts = torch.from_numpy(counts).float()

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        cells = shape.num_users * shape.num_items
        return Cost(1e-8 * shape.num_interactions, 1e-9 * cells, 16 * shape.num_items)

    def score_all(self, users: Tensor) -> Tensor:
        return self.counts.expand(1, len(users), -1).clone()

    def fold_in(self, history: Tensor) -> Tensor:
        return self.counts.unsqueeze(0)

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        return torch.zeros(1, len(history), len(items), device=history.device)  # a history says nothing
