"""Popularity and Quality: scores that are the same for all users."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr
from accord.models.base import Cost, Model, Setup, Shape


class SameForAll(Model):
    """Scores of items alone, [I]: the buffer called `scores`."""

    solved = True
    logits = False
    scores: str

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        cells = shape.num_users * shape.num_items
        return Cost(1e-8 * shape.num_interactions, 1e-9 * cells, 16 * shape.num_items)

    def score_all(self, users: Tensor) -> Tensor:
        scores: Tensor = getattr(self, self.scores)
        return scores.expand(1, len(users), -1).clone()

    def fold_in(self, history: Tensor) -> Tensor:
        scores: Tensor = getattr(self, self.scores)
        return scores.unsqueeze(0)

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        return torch.zeros(1, len(history), len(items), device=history.device)  # a history says nothing


class Popularity(SameForAll):
    name = "popularity"
    summary = "the most interacted items, the same for all users"
    scores = "counts"

    counts: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("counts", torch.zeros(setup.num_items, dtype=torch.float32))

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        counts = train.popularity() if weight is None else np.bincount(train.items, weight, train.num_items)
        self.counts = torch.from_numpy(counts).float()


def item_quality(train: Csr, p_real: npt.NDArray[np.float64], prior: float = 5.0) -> npt.NDArray[np.float64]:
    """The logit of the share of an item's interactions that are real, drawn to that of all as if there were `prior`
    more of these: [I], of mean 0."""
    total = np.bincount(train.items, p_real, train.num_items)
    mean = float(p_real.mean())
    share = np.clip((total + prior * mean) / (train.popularity() + prior), 1e-3, 1 - 1e-3)
    logit = np.log(share / (1 - share))
    result: npt.NDArray[np.float64] = logit - logit.mean()
    return result


class Quality(SameForAll):
    """The logit of the share of an item's interactions that are real, centred; 0 where nothing is known of them. A vote
    beside others, not a recommender."""

    name = "quality"
    summary = "how real the interactions of an item are, by labels: a vote in a consensus, the same for all users"
    own_scale = True
    scores = "value"

    value: Tensor
    real: Tensor  # interactions of each item that are real, as far as is known: users without history get most of these

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("value", torch.zeros(setup.num_items))
        self.register_buffer("real", torch.zeros(setup.num_items))

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        p_real = train.columns.get("p_real")
        if p_real is not None:
            self.value = torch.from_numpy(item_quality(train, p_real)).float()
            self.real = torch.from_numpy(np.bincount(train.items, p_real, train.num_items)).float()

    def for_newcomers(self) -> Tensor | None:
        return self.real if self.real.any() else None
