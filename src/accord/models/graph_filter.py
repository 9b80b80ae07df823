"""Graph filter: how strongly items are tied through users, sharpened or smoothed by one exponent (Turbo-CF)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field

from accord.data.csr import Csr
from accord.models.base import Cost, Shape
from accord.models.histories import DenseItemToItem, HistoryConfig, interaction_matrix, power_or_zero

COLUMNS_AT_ONCE = 2**10


class GraphFilter(DenseItemToItem):
    """Scores X P, P = (R'R)^s elementwise, R = Du^-1/2 X Di^-1/2 with the degrees of users and items.

    Memory: 4 bytes for each of I^2 weights, 12 more for each of I * `COLUMNS_AT_ONCE` while fitting.
    """

    name = "graph-filter"
    summary = "a low-pass filter on the graph of users and items, in closed form"
    most_items = 30_000  # 3.6 GB

    class Config(HistoryConfig):
        power: float = Field(0.25, gt=0, le=10, description="exponent of every weight between two items")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = interaction_matrix(train, weight)
        users, items = (sp.diags_array(power_or_zero(x.sum(axis).A1, -0.5)) for axis in (1, 0))
        scaled = (users @ x @ items).tocsc()
        found = np.empty((self.num_items, self.num_items), dtype=np.float32)
        for start in range(0, self.num_items, COLUMNS_AT_ONCE):
            some = slice(start, start + COLUMNS_AT_ONCE)
            tied = scaled.T @ scaled[:, some]
            tied.data **= self.config.power
            found[:, some] = tied.toarray()
            if self.told is not None:
                self.told(min(1, some.stop / self.num_items))
        self.weight = torch.from_numpy(found)

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        items, pairs = shape.num_items, shape.num_interactions
        entries = min(shape.by_user, items**2)
        memory = items * (4 * items + 24 * min(COLUMNS_AT_ONCE, items)) + 48 * pairs
        return Cost(5e-9 * shape.by_user + 3e-8 * entries + 3e-9 * items**2, super().cost(config, shape).rank, memory)
