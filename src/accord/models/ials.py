"""iALS: matrix factorisation with all pairs in its loss, solved by alternating least squares."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.errors import InputError
from accord.kernels.cpu import in_threads
from accord.kernels.least_squares import NUMBERS_AT_ONCE, SparseRows
from accord.kernels.lookups import take_rows
from accord.models.base import Cost, Model, Setup, Shape
from accord.models.histories import interaction_matrix, one_thread
from accord.random import generators

STEPS = 3  # of conjugate gradients, from where a vector was: what is left to go, the next iteration goes
GPU = 10  # times as fast as two cores
MOST_THREADS = 4  # where vectors are solved exactly
TOO_SMALL = "ials cannot be fitted: the penalty is too small for this data; raise model.penalty."
MOST_WIDE = 2**11  # a matrix of dim x dim is solved for every user and item


class IALS(Model):
    """Scores w_u h_i, of the w [R, U, d] and h [R, I, d] that minimise

    sum over interactions of x_ui (w_u h_i - 1)^2 + a sum over all pairs of (w_u h_i)^2
    + p (sum over users of (n_u + a I)^v |w_u|^2 + sum over items of (n_i + a U)^v |h_i|^2),

    n being sums of x (Rendle et al., Revisiting the performance of iALS on item recommendation benchmarks).
    Memory: 4 bytes for each number of w and h; while fitting about 100 MB and 40 bytes an interaction besides.
    """

    name = "ials"
    summary = "matrix factorisation over all pairs, by alternating least squares"
    solved = True
    seeded = True
    logits = False

    class Config(BaseConfig):
        dim: int = Field(64, ge=1, le=MOST_WIDE, description="width of the vectors")
        alpha: float = Field(0.3, gt=0, description="weight of a pair that was not observed")
        penalty: float = Field(0.01, gt=0, description="penalty on the vectors")
        nu: float = Field(1.0, ge=0, le=2, description="how the penalty grows with the interactions of a user or item")
        iterations: int = Field(10, ge=1, le=1000, description="times that users and items are solved in turn")

    user: Tensor
    item: Tensor
    spectrum: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("user", torch.empty(setup.runs, setup.num_users, config.dim))
        self.register_buffer("item", torch.empty(setup.runs, setup.num_items, config.dim))
        self.ptr, self.weight = setup.train.ptr, setup.train.columns.get("weight")  # what each interaction counts for
        self.register_buffer("spectrum", torch.empty(setup.runs, config.dim))  # h'h, which is diagonal: to fold in with

    @classmethod
    def least_numbers(cls, options: Mapping[str, Any], runs: int, num_users: int, num_items: int) -> int:
        dim: int = options.get("dim", cls.Config.model_fields["dim"].default)
        return runs * dim * (num_users + num_items + 1)

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        dim, rows, pairs = config.dim, shape.num_users + shape.num_items, shape.num_interactions
        steps = pairs * (3e-8 + 8e-10 * dim) + rows * (1e-7 + 5e-9 * dim)
        solving = dim**2 * 2.5e-11 * (pairs + min(rows * dim, 4 * pairs))
        fit = (2 * config.iterations * steps + solving) / (GPU if shape.gpu else 1)
        memory = 8 * dim * rows + 24 * MOST_THREADS * NUMBERS_AT_ONCE + 40 * pairs
        return Cost(fit, shape.num_users * shape.num_items * (1e-9 + 5e-11 * dim), memory)

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = interaction_matrix(train, weight).astype(np.float32)
        by_user, by_item = (SparseRows(rows, self.item.device) for rows in (x, x.T.tocsr()))
        dim, self._threads = self.config.dim, torch.get_num_threads()
        with one_thread(), torch.no_grad():
            for run, stream in enumerate(generators(self.seeds, "ials")):
                item = (torch.randn(self.num_items, dim, generator=stream) * (0.1 / dim**0.5)).to(self.item.device)
                user = torch.zeros_like(self.user[run])
                for number in range(1, self.config.iterations + 1):
                    user, item = self._improved(by_user, item, user)
                    item, user = self._improved(by_item, user, item)
                    if self.on_progress is not None:
                        self.on_progress((run + number / self.config.iterations) / len(self.seeds))
                self.user[run], self.item[run], self.spectrum[run] = self._solved(by_user, item)

    def _turned(self, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors [m, d], turned so that their H'H is diagonal, which changes no product; this diagonal [d]; and the
        turn [d, d]."""
        gram = other.mT @ other
        if not gram.isfinite().all():
            raise InputError(TOO_SMALL)
        turn = torch.linalg.eigh(gram.double())[1].to(other)
        other = other @ turn
        return other, other.square().sum(0), turn

    def _improved(self, rows: SparseRows, other: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors `start` [n, d] of rows [n], closer to those that are best where the others [m, d] are held fixed;
        and these, both turned."""
        other, spectrum, turn = self._turned(other)
        penalty = self._penalty(rows.sums, len(other))
        closer = rows.conjugate_gradient_steps(
            other, self.config.alpha * spectrum, penalty, start @ turn, STEPS, self._threads
        )
        return closer, other

    def _solved(self, rows: SparseRows, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors [n, d] that are best for rows [n] where those of the other side [m, d] are held fixed; these,
        turned; and the diagonal of their H'H [d]."""
        other, spectrum, _ = self._turned(other)
        result = torch.zeros(rows.size, self.config.dim, device=other.device)

        @torch.no_grad()
        def solve(places: Tensor, columns: Tensor, counts: Tensor) -> None:
            torch.set_num_threads(1)  # of each thread
            result[places] = self._best(other[columns], counts, spectrum, len(other))

        blocks, threads = rows.blocks(self.config.dim), 1 if other.is_cuda else min(MOST_THREADS, self._threads)
        while some := list(islice(blocks, threads)):  # the same blocks for any number of threads: the same bits
            in_threads(solve, some, threads)
        return result, other, spectrum

    def _penalty(self, sums: Tensor, whole: int) -> Tensor:
        """Of rows whose interactions count for `sums`, on vectors of which there are `whole`."""
        result: Tensor = self.config.penalty * (sums + self.config.alpha * whole) ** self.config.nu
        return result

    def _best(self, vectors: Tensor, counts: Tensor, spectrum: Tensor, whole: int) -> Tensor:
        """The best vectors [B, d] for rows of `counts` [B, L] on `vectors` [B, L, d], of `whole` that there are:
        w = (D + sum x h h')^-1 sum x h, D = a H'H + p (n + a whole)^v, which is diagonal.

        With S = diag(x)^1/2 that is D^-1 H'S (1 + S H D^-1 H'S)^-1 S 1: fewer equations where a row is short.
        """
        config, roots = self.config, counts.sqrt().unsqueeze(-1)
        diagonal = config.alpha * spectrum + self._penalty(counts.sum(1, keepdim=True), whole)  # [B, d]
        scaled = vectors * roots  # [B, L, d]
        short = counts.shape[1] < config.dim
        if short:
            right, scaled = roots, scaled / diagonal.sqrt().unsqueeze(1)
            left, more = scaled @ scaled.mT, torch.ones_like(counts)
        else:
            right, left, more = scaled.mT @ roots, scaled.mT @ scaled, diagonal
        left.diagonal(dim1=1, dim2=2).add_(more)
        factor, failed = torch.linalg.cholesky_ex(left)
        if failed.any():
            raise InputError(TOO_SMALL)
        result = torch.cholesky_solve(right, factor)
        return ((scaled.mT @ result).squeeze(-1) / diagonal.sqrt()) if short else result.squeeze(-1)

    def score_all(self, users: Tensor) -> Tensor:
        return self.user[:, users] @ self.item.mT

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return take_rows(self.user, users), self.item

    def item_vectors(self) -> Tensor:
        return self.item[0]

    def fold_in(self, history: Tensor) -> Tensor:
        counts = torch.ones(1, len(history), device=self.item.device)
        vectors = [
            self._best(item[history].unsqueeze(0), counts, spectrum, self.num_items)
            for item, spectrum in zip(self.item, self.spectrum, strict=True)
        ]
        return (torch.stack(vectors) @ self.item.mT).squeeze(1)

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        """w_u h_i = sum over the history of x_j h_j M^-1 h_i, M = D + sum x h h': what w_u is solved from."""
        config, counts = self.config, torch.ones(len(history))
        if user is not None and self.weight is not None:
            counts = torch.from_numpy(self.weight[self.ptr[user] : self.ptr[user + 1]]).float()
        counts = counts.to(history.device)
        penalty = self._penalty(counts.sum(), self.num_items)
        result = []
        for item, spectrum in zip(self.item, self.spectrum, strict=True):
            counted = item[history] * counts[:, None]  # [n, d]
            left = torch.diag(config.alpha * spectrum + penalty) + counted.mT @ item[history]
            result.append(counted @ torch.linalg.solve(left, item[items].mT))
        return torch.stack(result)
