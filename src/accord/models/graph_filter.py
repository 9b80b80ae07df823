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
from accord.models.histories import (
    CleanConfig,
    DenseItemToItem,
    by_blocks_of_gram,
    power_or_zero,
)

ROWS_AT_ONCE = 2**10


class GraphFilter(DenseItemToItem):
    """Scores X P, P = (R'R)^s elementwise, R = Du^-1/2 X Di^-1/2 with the degrees of users and items.

    Memory: 4 bytes for each of I^2 weights, 12 more for each of I * `ROWS_AT_ONCE` while fitting.
    """

    name = "graph-filter"
    summary = "a low-pass filter on the graph of users and items, in closed form"
    most_items = 30_000  # 3.6 GB

    class Config(CleanConfig):
        power: float = Field(0.25, gt=0, le=10, description="exponent of every weight between two items")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = self.to_fit(train, weight)
        users, items = (sp.diags_array(power_or_zero(x.sum(axis).A1, -0.5)) for axis in (1, 0))
        result = np.empty((self.num_items, self.num_items), dtype=np.float32)

        def take(rows: slice, tied: Any) -> None:
            tied.data **= self.config.power
            result[rows] = tied.toarray()

        at_once = max(1, ROWS_AT_ONCE // torch.get_num_threads())  # by all threads together
        by_blocks_of_gram(users @ x @ items, take, at_once, self.on_progress)
        self.weight = torch.from_numpy(result)

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        items, pairs = shape.num_items, shape.num_interactions
        entries = min(shape.by_user, items**2)
        memory = items * (4 * items + 24 * min(ROWS_AT_ONCE, items)) + 48 * pairs
        return Cost(5e-9 * shape.by_user + 3e-8 * entries + 3e-9 * items**2, super().cost(config, shape).rank, memory)
