"""User-kNN: what the users with the most similar histories took."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import Tensor

from accord.data.csr import Csr
from accord.kernels.neighbour_loops import Floats
from accord.kernels.neighbours import nearest_users, neighbour_scores
from accord.models.base import Cost, Setup, Shape
from accord.models.histories import HistoryConfig, ScoresHistories, interaction_matrix

NOBODY = -1  # whose history a new user's is


class UserKNN(ScoresHistories):
    """Scores: the sum of cos(u, v) x_vi over the k users v nearest to u, cos(u, v) = x_u x_v / (|x_u| |x_v| + shrink).
    Nothing is solved but the norms: users are compared when they are scored, so that what is kept are the histories.
    Memory: the histories twice; while scoring, some 20 bytes for each user and thread."""

    name = "user-knn"
    summary = "what the users with the most similar histories took, by a cosine"

    class Config(HistoryConfig):
        k: int = Field(200, ge=1, le=2**20, description="nearest users of each user")
        shrink: float = Field(100.0, ge=0, description="added to the norm: users with little in common count less")

    norm: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        self.histories = interaction_matrix(train, train.columns.get("weight")).astype(np.float32)  # [U, I]
        self.by_item = self.histories.T.tocsr()  # [I, U]
        self.scored, self.scored_norm = self.histories, None  # whose neighbours are sought; what these took ages not
        if self.in_order:
            self.scored = interaction_matrix(train, self.history_counts(train)).astype(np.float32)
            self.scored_norm = np.sqrt(self.scored.multiply(self.scored).sum(1).A1)
        self.register_buffer("norm", torch.empty(setup.num_users, dtype=torch.float32))

    @classmethod
    def least_numbers(cls, options: Any, runs: int, num_users: int, num_items: int) -> int:
        return num_users

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = interaction_matrix(train, weight)
        self.norm = torch.from_numpy(np.sqrt(x.multiply(x).sum(1).A1)).float()

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        users, items, pairs = shape.num_users, shape.num_items, shape.num_interactions
        entries, taken = min(shape.by_item, users**2), min(config.k, users) * pairs
        rank = 1.5e-9 * shape.by_item + 1.75e-8 * entries + 3e-9 * taken + 1.5e-9 * users * items
        return Cost(0.03 + 2e-7 * pairs, rank, 32 * pairs + 2**27)

    def score_all(self, users: Tensor) -> Tensor:
        rows = users.cpu().numpy()
        norms = self.norm.cpu().numpy() if self.scored_norm is None else self.scored_norm
        return torch.from_numpy(self._scores(self.scored[rows], norms[rows], rows)).to(self.norm.device).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        x, norm = self._row(history, self.counts_of(history))
        return torch.from_numpy(self._scores(x, norm, np.array([NOBODY]))).to(self.norm.device)

    def _row(self, history: Tensor, counts: Tensor | None) -> tuple[Any, Floats]:
        given = np.ones(len(history), dtype=np.float32) if counts is None else counts.cpu().numpy()
        row = sp.csr_matrix((given, history.cpu().numpy(), [0, len(history)]), shape=(1, self.num_items))
        return row, np.sqrt(np.square(given).sum(keepdims=True))

    def _scores(self, x: Any, x_norm: Floats, excluded: npt.NDArray[np.int64]) -> Floats:
        norm, options = self.norm.cpu().numpy(), self.config
        return neighbour_scores(x, x_norm, excluded, self.by_item, self.histories, norm, options.shrink, options.k)

    def user_counts(self, user: int) -> Tensor:
        return torch.from_numpy(self.scored[user].data).to(self.norm.device)

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        """Of cos(u, v) x_vi, what each item of the history has in x_u x_v: the neighbours are those of the whole."""
        x, size = self._row(history, self.counts_in(history, user))
        norm = self.norm.cpu().numpy()
        if user is not None:
            size = norm[[user]] if self.scored_norm is None else self.scored_norm[[user]]
        whose = np.array([NOBODY if user is None else user])
        result = nearest_users(x, size, whose, self.by_item, norm, self.config.shrink, self.config.k)
        near = result.indices
        took = self.histories[near]  # [k, I]
        shares = took[:, x.indices].toarray() * x.data / (size * norm[near] + np.float32(self.config.shrink))[:, None]
        added = shares.T @ took[:, items.cpu().numpy()].toarray()
        return torch.from_numpy(added.astype(np.float32)).to(self.norm.device).unsqueeze(0)
