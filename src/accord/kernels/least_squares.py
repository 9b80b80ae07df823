"""Rows of a least squares problem, moved towards their solutions by conjugate gradients: the torch code that defines
it, and the compiled loop. Every row is solved by itself, so the number of threads changes no bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.kernels import cpu
from accord.kernels.neighbours import shares

NUMBERS_AT_ONCE = 2**20  # of the vectors, and of the matrices, of rows that are solved together
NUMBERS_ON_CUDA = 2**25  # where a block of few takes as long as one of many


def conjugate_gradient_steps(vectors: Tensor, counts: Tensor, diagonal: Tensor, start: Tensor, steps: int) -> Tensor:
    """From `start` [B, d] so many steps of conjugate gradients towards w = (D + sum x h h')^-1 sum x h, the x being
    `counts` [B, L], the h `vectors` [B, L, d], and D, a diagonal that is the preconditioner too, `diagonal` [B, d]."""

    def times(w: Tensor) -> Tensor:
        return diagonal * w + (vectors.mT @ (counts.unsqueeze(-1) * (vectors @ w.unsqueeze(-1)))).squeeze(-1)

    solution = start
    residual = (vectors.mT @ counts.unsqueeze(-1)).squeeze(-1) - times(solution)
    direction = residual / diagonal
    size = (residual * direction).sum(1, keepdim=True)
    for _ in range(steps):
        image = times(direction)
        square = (direction * image).sum(1, keepdim=True)
        solved = (size == 0) | (square == 0)  # near the smallest floats one may be 0 and not the other
        length = (size / square).masked_fill(solved, 0)
        solution, residual = solution + length * direction, residual - length * image
        scaled, before = residual / diagonal, size
        size = (residual * scaled).sum(1, keepdim=True)
        direction = scaled + (size / before).masked_fill(solved, 0) * direction
    return solution


class SparseRows:
    """A sparse matrix [n, m] of what pairs count for, on a device."""

    def __init__(self, x: Any, device: torch.device) -> None:
        self.size, self.counts, self.sums = x.shape[0], np.diff(x.indptr), torch.from_numpy(x.sum(1).A1).to(device)
        self.ends, self.columns, self.values = (
            torch.from_numpy(part).to(device)
            for part in (x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
        )

    def conjugate_gradient_steps(
        self, vectors: Tensor, spectrum: Tensor, penalty: Tensor, start: Tensor, steps: int, threads: int
    ) -> Tensor:
        """The steps of all rows, 0 for those that are empty: `start` [n, d], which may be overwritten, with the vectors
        [m, d] of the columns, and D = `spectrum` [d] + `penalty` [n] of the row."""
        if cpu.usable(vectors):
            tables = self.ends, self.columns, self.values, vectors, spectrum, penalty
            arrays, solution = [part.contiguous().numpy() for part in tables], start.contiguous()
            calls = [(*arrays, steps, first, solution[first:last].numpy()) for first, last in shares(self.counts)]
            cpu.call("conjugate_gradient_rows", calls, threads)
            return solution
        solution = torch.zeros_like(start)
        for rows, columns, counts in self.blocks(vectors.shape[1]):
            diagonal = spectrum + penalty[rows].unsqueeze(1)
            solution[rows] = conjugate_gradient_steps(vectors[columns], counts, diagonal, start[rows], steps)
        return solution

    def blocks(self, dim: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows [B], their columns [B, L] and what they count for [B, L], 0 where a row has ended; empty rows never.
        Rows of about the same length come together."""
        at_once = NUMBERS_ON_CUDA if self.ends.is_cuda else NUMBERS_AT_ONCE
        lengths = 2 ** np.ceil(np.log2(np.maximum(self.counts, 1))).astype(np.int64)
        for length in np.unique(lengths[self.counts > 0]).tolist():
            rows = torch.from_numpy(np.flatnonzero((lengths == length) & (self.counts > 0))).to(self.ends.device)
            within = torch.arange(length, device=rows.device)
            for part in torch.split(rows, max(1, at_once // (max(dim, length) * dim))):
                starts, ends = self.ends[part].unsqueeze(1), self.ends[part + 1].unsqueeze(1)
                places = (starts + within).clamp(max=len(self.columns) - 1)
                yield part, self.columns[places].long(), self.values[places] * (starts + within < ends)
