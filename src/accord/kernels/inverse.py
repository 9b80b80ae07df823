"""The inverse of a large positive definite matrix, in place, by as many threads as torch uses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from accord.kernels import cpu
from accord.kernels.neighbour_loops import Doubles, Floats

BLOCK = 512  # rows that are eliminated together, and rows that one thread changes at a time


def sweep(matrix: Doubles | Floats, on_progress: Callable[[float], None] | None = None) -> None:
    """Turns a positive definite matrix into minus its inverse; what is above the diagonal is neither read nor made.
    Blocks of variables are swept one after another: with R = A[:, k] and S = A[k, k]^-1, A[k, k] becomes -S, A[:, k]
    becomes R S, and the rest A - R S R'. Each block of rows is one product by one thread, so that the number of threads
    changes no bit. LinAlgError if the matrix is not positive definite."""
    size = len(matrix)
    blocks = [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    table, threads = torch.from_numpy(matrix), torch.get_num_threads()
    column, scaled = torch.empty(size, BLOCK, dtype=table.dtype), torch.empty(size, BLOCK, dtype=table.dtype)

    def change(rows: slice, pivot: slice) -> None:
        torch.set_num_threads(1)
        wide = pivot.stop - pivot.start
        for ends in (slice(0, min(rows.stop, pivot.start)), slice(pivot.stop, rows.stop)):
            if ends.start < ends.stop and table.dtype == torch.float64:
                table[rows, ends].addmm_(scaled[rows, :wide], column[ends, :wide].T, alpha=-1)
            elif ends.start < ends.stop:  # torch's addmm of float32 takes longer than both apart, on ARM almost twice
                table[rows, ends].sub_(scaled[rows, :wide] @ column[ends, :wide].T)

    try:
        for number, pivot in enumerate(blocks):
            wide = pivot.stop - pivot.start
            torch.set_num_threads(1)
            square = torch.tril(table[pivot, pivot])
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(square + torch.tril(square, -1).T))
            column[: pivot.start, :wide] = table[pivot, : pivot.start].T
            column[pivot.stop :, :wide] = table[pivot.stop :, pivot]
            column[pivot, :wide] = 0
            others = [rows for rows in blocks if rows != pivot]
            for rows in others:
                torch.mm(column[rows, :wide], inverse, out=scaled[rows, :wide])
            cpu.in_threads(change, [(rows, pivot) for rows in reversed(others)], threads)  # the longest rows first
            table[pivot, : pivot.start] = scaled[: pivot.start, :wide].T
            table[pivot.stop :, pivot] = scaled[pivot.stop :, :wide]
            table[pivot, pivot] = -inverse
            if on_progress is not None:
                on_progress((number + 1) / len(blocks))
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise np.linalg.LinAlgError("the matrix is not positive definite") from error
    finally:
        torch.set_num_threads(threads)
