"""Items that the same users took: the nearest of each, and ridge regressions on them. Plain scipy and numpy, and the
compiled loops of `neighbour_loops` that do the same.

Every item is found by itself, so the number of threads changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import torch

from accord.kernels import cpu
from accord.kernels.neighbour_loops import Columns, Doubles, Floats, Ints

ENTRIES_AT_ONCE = 2**24  # of the items x items or users x users matrix, where it is made by scipy
PARTS = 64  # of about the same cost, shared out among the threads
Progress = Callable[[float], None]  # gets the share of the work that is done


class Nearest(NamedTuple):
    """Of item j: columns[j, : counts[j]], rising, and c_ij = sum over users of x_ui x_uj for these i."""

    counts: Ints  # [I]
    columns: Columns  # [I, k]
    together: npt.NDArray[Any]  # [I, k]

    @property
    def there(self) -> npt.NDArray[np.bool_]:
        """[I, k]: what is an entry and no padding."""
        found: npt.NDArray[np.bool_] = np.arange(self.columns.shape[1]) < self.counts[:, None]
        return found


def nearest_items(
    x: Any,
    k: int,
    own: Doubles,
    other: Doubles,
    shrink: float = 0.0,
    dtype: Any = np.float64,
    on_progress: Progress | None = None,
) -> Nearest:
    """The k items i of each item j that have the largest c_ij / (own_i other_j + shrink), c = x'x of a sparse x [U, I];
    of equal ones those in earlier columns. An item is not its own neighbour, nor are two that nobody took both."""
    num_items = x.shape[1]
    by_item = x.T.tocsr()
    costs = by_item.astype(bool) @ np.diff(x.indptr)  # at most so many entries in a row of c
    k = max(1, min(k, num_items - 1, int(costs.max(initial=0))))
    made = Nearest(
        np.zeros(num_items, dtype=np.int64), np.empty((num_items, k), dtype=np.int32), np.empty((num_items, k), dtype)
    )
    if not cpu.compiled():
        _plain_nearest(x, by_item, made, costs, own, other, shrink)
        return made
    arrays = [_parts_of(matrix) for matrix in (x, by_item)]
    calls = [
        (*arrays[0], *arrays[1], first, own, other, shrink, *(part[first:last] for part in made))
        for first, last in shares(costs)
    ]
    cpu.call("nearest_items", calls, on_progress=on_progress)
    return made


def _parts_of(matrix: Any) -> tuple[Ints, Columns, Doubles]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)


def shares(costs: npt.NDArray[Any], parts: int = PARTS) -> list[tuple[int, int]]:
    """Bounds of consecutive items that cost about the same together."""
    ends = np.cumsum(costs + 1.0)
    marks = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1]) if len(ends) else np.empty(0, dtype=int)
    return list(pairwise(np.unique([0, *marks, len(costs)]).tolist()))


def _plain_nearest(
    x: Any, by_item: Any, made: Nearest, costs: npt.NDArray[Any], own: Doubles, other: Doubles, shrink: float
) -> None:
    num_items = x.shape[1]
    parts = np.minimum(costs, num_items).cumsum() // ENTRIES_AT_ONCE
    for rows in np.split(np.arange(num_items), np.flatnonzero(np.diff(parts)) + 1):
        found = (by_item[rows] @ x).tocoo()
        apart = (found.col != rows[found.row]) & (found.data != 0)
        row, col, together = found.row[apart], found.col[apart], found.data[apart]
        alike = together / (own[col] * other[rows[row]] + shrink)
        best = k_best(sp.csr_matrix((alike, (row, col)), shape=found.shape), made.columns.shape[1])
        counts = np.diff(best.indptr)
        places = (
            rows[np.repeat(np.arange(len(rows)), counts)],
            np.arange(best.nnz) - np.repeat(best.indptr[:-1], counts),
        )
        made.counts[rows] = counts
        made.columns[places] = best.indices
        exact = sp.csr_matrix((together, (row, col)), shape=found.shape)
        made.together[places] = np.asarray(exact[np.repeat(np.arange(len(rows)), counts), best.indices]).ravel()


def k_best(rows: Any, k: int) -> Any:
    """A sparse matrix (CSR) with the k largest entries of each row alone; of equal ones those in earlier columns."""
    counts = np.diff(rows.indptr)
    least = np.full(len(counts), -np.inf, dtype=rows.data.dtype)  # the k-th largest of each row that has more
    for row in np.flatnonzero(counts > k):  # linear in the entries, where sorting them all is not
        least[row] = np.partition(rows.data[rows.indptr[row] : rows.indptr[row + 1]], -k)[-k]
    rows = _entries(rows, rows.data >= np.repeat(least, counts))
    rows.sort_indices()
    counts = np.diff(rows.indptr)
    order = np.lexsort((-rows.data, np.repeat(np.arange(len(counts)), counts)))  # stable: equal ones stay as they are
    kept = np.zeros(len(order), dtype=bool)
    kept[order[np.arange(len(order)) - np.repeat(rows.indptr[:-1], counts) < k]] = True
    return _entries(rows, kept)


def _entries(rows: Any, kept: npt.NDArray[np.bool_]) -> Any:
    """Some of the entries of a CSR matrix."""
    ends = np.append(0, kept.cumsum())[rows.indptr]
    return sp.csr_matrix((rows.data[kept], rows.indices[kept], ends), shape=rows.shape)


def local_ridges(
    near: Nearest, pairs: Nearest, diagonal: Doubles, penalty: Doubles, basis: Doubles, image: Doubles,
    on_progress: Progress | None = None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """For each item j the weights w [I] with w_j = 0 that minimise |x_j - x w|^2 + sum of penalty_i w_i^2 among those
    of the form w_i = basis_i a + b_i, b_i = 0 but for the neighbours i of j: b [I, k] and a [I, d].

    `diagonal` and `pairs` are H = x'x + diag(penalty), of which pairs that are not there count as 0; `image` = H basis.
    """
    weights = np.zeros(near.columns.shape, dtype=np.float32)
    spread = np.zeros(basis.shape, dtype=np.float32)
    inner = basis.T @ image
    if not cpu.compiled():
        for item in range(len(diagonal)):
            _plain_ridge(item, near, pairs, diagonal, basis, image, inner, weights, spread)
        return weights, spread
    sizes = near.counts + basis.shape[1]
    calls = [
        (*(part[first:last] for part in near), *pairs, first, diagonal, penalty, basis, image, inner,
         weights[first:last], spread[first:last])
        for first, last in shares(sizes**3)
    ]  # fmt: skip
    cpu.call("local_ridges", calls, on_progress=on_progress)
    return weights, spread


def history_scores(x: Any, weights: Any, rows: Ints) -> Floats:
    """x[rows] W [B, I], of sparse x [U, I] and W [I, I] in float32."""
    if not cpu.compiled():
        return (x[rows] @ weights).toarray()  # type: ignore[no-any-return]
    out = np.zeros((len(rows), weights.shape[1]), dtype=np.float32)
    tables = [part for matrix in (x, weights) for part in (matrix.indptr, matrix.indices, matrix.data)]
    parts = min(4 * torch.get_num_threads() - 3, 1 + len(rows) // 64)
    bounds = [len(rows) * part // parts for part in range(parts + 1)]
    cpu.call("history_scores", [(*tables, rows[first:last], out[first:last]) for first, last in pairwise(bounds)])
    return out


def neighbour_scores(
    x: Any, own: Floats, known: Ints, by_item: Any, histories: Any, norm: Floats, shrink: float, k: int
) -> Floats:
    """[B, I]: the sum of cos(u, v) times v's history over the k users v with the largest cos(u, v) = x_u x_v / (own_u
    norm_v + shrink) to each history u of x [B, I]. `known` [B]: whose they are, to be left out, or -1."""
    costs = x.astype(bool) @ np.diff(by_item.indptr)  # at most so many similarities of each
    if not cpu.compiled():
        parts = np.minimum(costs, len(norm)).cumsum() // ENTRIES_AT_ONCE
        return np.concatenate([
            (nearest_users(x[rows], own[rows], known[rows], by_item, norm, shrink, k) @ histories).toarray()
            for rows in np.split(np.arange(len(own)), np.flatnonzero(np.diff(parts)) + 1)
        ])  # fmt: skip
    out = np.zeros((len(own), histories.shape[1]), dtype=np.float32)
    tables = by_item.indptr, by_item.indices, by_item.data
    took = histories.indptr, histories.indices, histories.data
    calls = []
    for first, last in shares(costs, min(PARTS, 4 * torch.get_num_threads())):
        part = x[first:last]
        calls.append((
            part.indptr, part.indices, part.data, own[first:last], known[first:last], *tables, norm, shrink, *took,
            out[first:last], k,
        ))  # fmt: skip
    cpu.call("nearest_users", calls)
    return out


def nearest_users(x: Any, own: Floats, known: Ints, by_item: Any, norm: Floats, shrink: float, k: int) -> Any:
    """The same similarities [B, U], sparse; those of `known` are 0."""
    alike = (x @ by_item).tocsr()
    owner = np.repeat(np.arange(len(own)), np.diff(alike.indptr))
    alike.data /= own[owner] * norm[alike.indices] + np.float32(shrink)
    alike.data[alike.indices == known[owner]] = 0
    return k_best(alike, k)


def _plain_ridge(
    item: int, near: Nearest, pairs: Nearest, diagonal: Doubles, basis: Doubles, image: Doubles, inner: Doubles,
    weights: Floats, spread: Floats,
) -> None:  # fmt: skip
    some, v = near.columns[item, : near.counts[item]], basis[item]
    size, together = len(some), near.together[item, : near.counts[item]].astype(np.float64)
    left = np.zeros((size + len(v), size + len(v)))
    for a, i in enumerate(some):
        there = pairs.columns[i, : pairs.counts[i]]
        b = np.searchsorted(some, there)
        met = some[np.minimum(b, size - 1)] == there
        left[a, b[met]] = left[b[met], a] = pairs.together[i, : pairs.counts[i]][met]
        left[a, a] = diagonal[i]
    left[size:, :size] = (image[some] - np.outer(together, v)).T
    left[:size, size:] = left[size:, :size].T
    crossed = np.outer(image[item], v)
    left[size:, size:] = inner - crossed - crossed.T + diagonal[item] * np.outer(v, v)
    right = np.append(together, image[item] - diagonal[item] * v)
    found = scipy.linalg.lstsq(left, right, cond=1e-9)[0] if len(right) else right
    weights[item, :size], spread[item] = found[:size], found[size:]
