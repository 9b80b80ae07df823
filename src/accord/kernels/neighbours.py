"""Items that the same users took: the nearest of each, and ridge regressions on them, in scipy and numpy, and by the
compiled loops of `neighbour_loops`. Every item is treated by itself, so the number of threads changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from accord.kernels import cpu
from accord.kernels.lookups import places_of
from accord.kernels.neighbour_loops import Columns, Doubles, Floats, Ints, Values

ENTRIES_AT_ONCE = 2**24  # of the items x items or users x users matrix, where scipy computes it
USERS_AT_ONCE = 64  # whose scores a GPU adds up
PARTS = 64  # of about the same cost, shared out among the threads
Progress = Callable[[float], None]  # gets the share of the work that is done


class Nearest(NamedTuple):
    """Of row j: columns[j, : counts[j]], rising, and c_ij of these i, c being the product of two matrices."""

    counts: Ints  # [n]
    columns: Columns  # [n, k]
    together: npt.NDArray[Any]  # [n, k]

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """[n, k]: what is an entry and not padding."""
        return np.less(np.arange(self.columns.shape[1]), self.counts[:, None])


def nearest_items(
    x: Any, k: int, near_norm: Doubles, item_norm: Doubles, shrink: float = 0.0, dtype: Any = np.float64,
    on_progress: Progress | None = None,
) -> Nearest:  # fmt: skip
    """The k items i of each item j that have the largest c_ij / (near_norm_i item_norm_j + shrink), c = x'x of
    a sparse x [U, I]; of equal ones those in earlier columns. An item is no neighbour of itself, nor of one that it was
    never taken with."""
    x = x.astype(np.float64, copy=False)
    return nearest(x.T.tocsr(), x, k, np.arange(x.shape[1]), item_norm, near_norm, shrink, dtype, on_progress)


def nearest(
    x: Any, y: Any, k: int, excluded: Ints, row_norm: Values, norm: Values, shrink: float, dtype: Any,
    on_progress: Progress | None = None,
) -> Nearest:  # fmt: skip
    """The k columns i of each row j of c = x y, both sparse, that have the largest c_ji / (row_norm_j norm_i + shrink):
    of equal ones the earlier, none where c is 0, nor the column `excluded` [n]."""
    costs = x.astype(bool) @ np.diff(y.indptr)  # at most so many entries in a row of c
    shape = x.shape[0], max(1, min(k, y.shape[1], int(costs.max(initial=0))))
    result = Nearest(np.zeros(shape[0], dtype=np.int64), np.empty(shape, dtype=np.int32), np.empty(shape, dtype))
    small = norm.dtype.type(shrink)
    if not cpu.compiled():
        for rows in in_blocks(costs, y.shape[1]):
            _reference_nearest(rows, x, y, excluded, row_norm, norm, small, result)
        return result
    (ptr, *entries), other = _parts_of(x), _parts_of(y)
    calls = [
        (ptr[first : last + 1], *entries, *other, excluded[first:last], row_norm[first:last], norm, small,
         *(part[first:last] for part in result))
        for first, last in shares(costs)
    ]  # fmt: skip
    cpu.call("nearest", calls, on_progress=on_progress)
    return result


def in_blocks(costs: npt.NDArray[Any], width: int) -> list[Ints]:
    """Consecutive rows of a sparse product whose entries, of `costs` at most, fit into memory together."""
    parts = np.minimum(costs, width).cumsum() // ENTRIES_AT_ONCE
    return np.split(np.arange(len(costs)), np.flatnonzero(np.diff(parts)) + 1)


def _parts_of(matrix: Any) -> tuple[Ints, Columns, Values]:
    return matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False), matrix.data


def shares(costs: npt.NDArray[Any], parts: int = PARTS) -> list[tuple[int, int]]:
    """Bounds of consecutive items that cost about the same together."""
    ends = np.cumsum(costs + 1.0)
    marks = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1]) if len(ends) else np.empty(0, dtype=int)
    return list(pairwise(np.unique([0, *marks, len(costs)]).tolist()))


def _reference_nearest(
    rows: Ints, x: Any, y: Any, excluded: Ints, row_norm: Values, norm: Values, shrink: Any, result: Nearest
) -> None:
    product = (x[rows] @ y).tocoo()
    apart = (product.col != excluded[rows[product.row]]) & (product.data != 0)
    row, col, together = product.row[apart], product.col[apart], product.data[apart]
    alike = together / (norm[col] * row_norm[rows[row]] + shrink)
    best = k_best(sp.csr_matrix((alike, (row, col)), shape=product.shape), result.columns.shape[1])
    counts = np.diff(best.indptr)
    owner = np.repeat(np.arange(len(rows)), counts)
    places = rows[owner], np.arange(best.nnz) - np.repeat(best.indptr[:-1], counts)
    result.counts[rows] = counts
    result.columns[places] = best.indices
    exact = sp.csr_matrix((together, (row, col)), shape=product.shape)
    result.together[places] = np.asarray(exact[owner, best.indices]).ravel()


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
    selected = np.zeros(len(order), dtype=bool)
    selected[order[np.arange(len(order)) - np.repeat(rows.indptr[:-1], counts) < k]] = True
    return _entries(rows, selected)


def _entries(rows: Any, selected: npt.NDArray[np.bool_]) -> Any:
    ends = np.append(0, selected.cumsum())[rows.indptr]
    return sp.csr_matrix((rows.data[selected], rows.indices[selected], ends), shape=rows.shape)


def local_ridges(
    near: Nearest, pairs: Nearest, diagonal: Doubles, penalty: Doubles, basis: Doubles, image: Doubles,
    on_progress: Progress | None = None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """For each item j the weights w [I] with w_j = 0 that minimise |x_j - x w|^2 + sum of penalty_i w_i^2 among those
    of the form w_i = basis_i a + b_i, b_i = 0 but for the neighbours i of j: b [I, k] and a [I, d].

    `diagonal` and `pairs` are H = x'x + diag(penalty), of which missing pairs count as 0; `image` = H basis."""
    weights = np.zeros(near.columns.shape, dtype=np.float32)
    spread = np.zeros(basis.shape, dtype=np.float32)
    inner = basis.T @ image
    if not cpu.compiled():
        for item in range(len(diagonal)):
            _reference_ridge(item, near, pairs, diagonal, basis, image, inner, weights, spread)
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
    x: Any, x_norm: Floats, excluded: Ints, by_item: Any, histories: Any, norm: Floats, shrink: float, k: int
) -> Floats:
    """[B, I]: the sum of cos(u, v) times v's history over the k users v with the largest cos(u, v) = x_u x_v /
    (x_norm_u norm_v + shrink) to each history u of x [B, I]. `excluded` [B]: the user of each history, or -1."""
    scores = []
    for rows in in_blocks(x.astype(bool) @ np.diff(by_item.indptr), len(norm)):
        alike = nearest_users(x[rows], x_norm[rows], excluded[rows], by_item, norm, shrink, k)
        scores.append(history_scores(alike, histories, np.arange(len(rows))))
    return np.concatenate(scores) if len(scores) > 1 else scores[0]


def nearest_users(x: Any, x_norm: Floats, excluded: Ints, by_item: Any, norm: Floats, shrink: float, k: int) -> Any:
    """The similarities to these k users alone: [B, U], sparse."""
    near = nearest(x, by_item, k, excluded, x_norm, norm, shrink, np.float32)
    columns = near.columns[near.mask]
    alike = near.together[near.mask] / (np.repeat(x_norm, near.counts) * norm[columns] + np.float32(shrink))
    return sp.csr_matrix((alike, columns, np.append(0, near.counts.cumsum())), shape=(len(x_norm), len(norm)))


def _reference_ridge(
    item: int, near: Nearest, pairs: Nearest, diagonal: Doubles, basis: Doubles, image: Doubles, inner: Doubles,
    weights: Floats, spread: Floats,
) -> None:  # fmt: skip
    some, v = near.columns[item, : near.counts[item]], basis[item]
    size, together = len(some), near.together[item, : near.counts[item]].astype(np.float64)
    left = np.zeros((size + len(v), size + len(v)))
    for a, i in enumerate(some):
        others = pairs.columns[i, : pairs.counts[i]]
        b = np.searchsorted(some, others)
        met = some[np.minimum(b, size - 1)] == others
        left[a, b[met]] = left[b[met], a] = pairs.together[i, : pairs.counts[i]][met]
        left[a, a] = diagonal[i]
    left[size:, :size] = (image[some] - np.outer(together, v)).T
    left[:size, size:] = left[size:, :size].T
    crossed = np.outer(image[item], v)
    left[size:, size:] = inner - crossed - crossed.T + diagonal[item] * np.outer(v, v)
    right = np.append(together, image[item] - diagonal[item] * v)
    from scipy.linalg import lstsq  # slow to import

    solution = lstsq(left, right, cond=1e-9)[0] if len(right) else right
    weights[item, :size], spread[item] = solution[:size], solution[size:]


def lay_out(rows: torch.Tensor, sparse: Any) -> None:
    """Fill dense rows [n, I] with sparse ones, of which no more than there is goes to a GPU."""
    if not rows.is_cuda:
        rows.copy_(torch.from_numpy(sparse.toarray()))
        return
    places = np.repeat(np.arange(len(rows)) * rows.shape[1], np.diff(sparse.indptr)) + sparse.indices
    rows.zero_().view(-1)[torch.from_numpy(places).to(rows.device)] = torch.from_numpy(sparse.data).to(rows)


def sums_of_rows(users: torch.Tensor, own: Sequence[Any], weights: Sequence[Any]) -> torch.Tensor:
    """`history_scores` of users [B] by a GPU; X and W as tensors: ends, columns, and values or None for ones."""
    (ptr, items, counts), (ends, columns, values) = own, weights
    size = len(ends) - 1
    scores = torch.zeros(len(users), size, device=users.device)
    for some, rows in zip(torch.split(users, USERS_AT_ONCE), torch.split(scores, USERS_AT_ONCE), strict=True):
        owner, places, _ = places_of(ptr, some)
        which, entries, _ = places_of(ends, items[places].long())
        added = values[entries] if counts is None else values[entries] * counts[places][which]
        rows.view(-1).index_add_(0, owner[which] * size + columns[entries], added)
    return scores
