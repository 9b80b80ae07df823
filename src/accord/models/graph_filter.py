"""Graph filter: how strongly items are tied through users, sharpened or smoothed by one exponent (Turbo-CF), with the
strongest factors of the graph beside it (GF-CF)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.data.csr import Csr
from accord.kernels.neighbours import lay_out
from accord.models.base import Cost, Setup, Shape
from accord.models.histories import CleanConfig, DenseItemToItem, WithFactors, by_blocks_of_gram, power_or_zero

CPU, ROWS_AT_ONCE = torch.device("cpu"), 2**10
ROUNDS, MORE = 6, 16  # of the search for factors, with so many more than are asked for


class GraphFilter(WithFactors, DenseItemToItem):
    """Scores X P, P = (R'R)^s elementwise + w Di^-1/2 VV' Di^1/2, R = Du^-1/2 X Di^-1/2 with the degrees of users and
    items, V [I, k] the first right singular vectors of R.

    Memory: 4 bytes for each of I^2 weights, 12 more for each of I * `ROWS_AT_ONCE` while fitting."""

    name = "graph-filter"
    summary = "a low-pass filter on the graph of users and items, in closed form"

    class Config(CleanConfig):
        power: float = Field(0.25, gt=0, le=10, description="exponent of every weight between two items")
        factors: int = Field(0, ge=0, le=2**12, description="factors of the graph to add")
        share: float = Field(0.3, gt=0, description="weight of these factors")
        omit_when_default: ClassVar[tuple[str, ...]] = (*CleanConfig.omit_when_default, "factors", "share")

    def __init__(self, config: Any, setup: Setup) -> None:
        number = min(config.factors, setup.num_items, setup.num_users)
        super().__init__(config, setup, number if 2 * number < setup.num_items else 0)  # 0: W has them too

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        self.require_memory()
        x = self.to_fit(train, weight)
        degrees = [x.sum(axis).A1 for axis in (1, 0)]
        users, items = (sp.diags_array(power_or_zero(sums, -0.5)) for sums in degrees)
        result = torch.empty(self.num_items, self.num_items, device=self.place)

        def take(rows: slice, tied: Any) -> None:
            tied.data **= self.config.power
            lay_out(result[rows], tied)

        at_once = max(1, ROWS_AT_ONCE // torch.get_num_threads())  # by all threads together
        scaled = users @ x @ items
        by_blocks_of_gram(scaled, take, at_once, self.on_progress)
        if self.config.factors:
            vectors = right_singular_vectors(scaled, self.config.factors, device=self.place)
            left, right = (vectors * power_or_zero(degrees[1], power)[:, None] for power in (-0.5, 0.5))
            basis, spread = (torch.from_numpy(x).float() for x in (self.config.share * left, right))
            if self.dim:
                self.basis, self.spread = basis, spread
            else:
                result += (basis @ spread.mT).to(result)
        self.weight = result

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        items, pairs = shape.num_items, shape.num_interactions
        entries = min(shape.by_user, items**2)
        factors = 2e-9 * ROUNDS * config.factors * (pairs + 2e4 + items * config.factors / 20 + items**2 / 200)
        memory = items * (4 * items + 24 * min(ROWS_AT_ONCE, items)) + 48 * pairs
        dense = 3e-9 * items**2
        if shape.gpu:
            factors, dense = 2e-8 * ROUNDS * config.factors * (shape.num_users + items), 5e-10 * items**2
        fit = 0.03 + 2e-9 * shape.by_user + 1e-8 * entries + dense + factors
        return Cost(fit, super().cost(config, shape).rank, memory)


def right_singular_vectors(x: Any, number: int, rounds: int = ROUNDS, device: torch.device = CPU) -> npt.NDArray[Any]:
    """The first right singular vectors of a sparse matrix [U, I], by subspace iteration: [I, number or fewer]."""
    size = min(number + MORE, *x.shape)
    basis = np.random.default_rng(0).standard_normal((x.shape[1], size)).astype(x.dtype)
    if device.type == "cuda":
        return _vectors_on(device, x, basis, rounds)[:, :number]
    for _ in range(rounds):
        basis = np.linalg.qr(x.T @ (x @ basis))[0]
    image = x @ basis
    turn = np.linalg.eigh(image.T @ image)[1][:, ::-1]  # the largest first
    result: npt.NDArray[Any] = basis @ turn[:, :number]
    return result


def _vectors_on(device: torch.device, x: Any, start: npt.NDArray[Any], rounds: int) -> npt.NDArray[Any]:
    sides = [[torch.from_numpy(part).to(device) for part in (m.indices, m.indptr, m.data)] for m in (x, x.T.tocsr())]

    def times(side: int, vectors: Tensor) -> Tensor:
        columns, ends, values = sides[side]
        return F.embedding_bag(columns, vectors, ends, mode="sum", per_sample_weights=values, include_last_offset=True)

    basis = torch.from_numpy(start).to(device)
    for _ in range(rounds):
        basis = torch.linalg.qr(times(1, times(0, basis)))[0]
    image = times(0, basis)
    turn = torch.linalg.eigh(image.mT @ image)[1].flip(1)
    result: npt.NDArray[Any] = (basis @ turn).cpu().numpy()
    return result
