"""What a model says of the items that a user has, and how many untouched items it puts below them. Plain scipy and
numpy, and the compiled loops of `neighbour_loops` that do the same.

Every user is looked at alone, so the number of threads changes no bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from accord.kernels import cpu
from accord.kernels.neighbour_loops import Columns, Doubles, Floats, Ints
from accord.kernels.neighbours import shares

USERS_AT_ONCE = 2**12
NUMBERS_AT_ONCE = 2**22


def own_scores(x: Any, weights: Any) -> Doubles:
    """For each entry (u, i) of a sparse x [U, I] the sum of weights[i, j] over all j that u has; weights [I, I] sparse,
    rows sorted: [n]."""
    if not cpu.compiled():
        return np.concatenate([_plain_scores(rows, weights) for _, rows in _user_blocks(x)])
    found = np.empty(x.nnz)
    tables = [part for one in (x, weights) for part in (one.indptr.astype(np.int64), one.indices.astype(np.int32))]
    weight = weights.data.astype(np.float64)
    calls = [(*tables, weight, first, last, found) for first, last in shares(np.diff(x.indptr))]
    cpu.share_out("own_scores", calls)
    return found


def _plain_scores(rows: Any, weights: Any) -> Doubles:
    found = (rows @ weights.T).tocsr()
    found.sort_indices()
    return np.asarray(found[_owners(rows), rows.indices], dtype=np.float64).ravel()


def shares_below(
    x: Any, scores: Doubles, references: Ints, weights: Floats | None = None, bias: Doubles | None = None
) -> Doubles:
    """For each entry (u, i) of a sparse x [U, I] the share of those references [K], items, which u has not, that score
    less than `scores` [n] says of it, equal ones counting half: [n].

    A reference scores its bias [K] and what each item of the history adds, without i: weights [I, K]. None: 0.
    """
    size = len(references)
    rows = x.indices.astype(np.int32) if weights is not None else np.zeros(x.nnz, dtype=np.int32)
    added = np.zeros((1, size), dtype=np.float32) if weights is None else weights
    had = np.zeros(size) if bias is None else bias
    found = np.empty(x.nnz)
    if not cpu.compiled():
        _plain_below(x, rows, scores, references, added, had, found)
        return found
    tables = x.indptr.astype(np.int64), x.indices.astype(np.int32), rows, references, added, had, scores
    cpu.share_out("shares_below", [(*tables, first, last, found) for first, last in shares(np.diff(x.indptr))])
    return found


def _plain_below(
    x: Any, of: Columns, scores: Doubles, references: Ints, weights: Floats, bias: Doubles, out: Doubles
) -> None:
    column = np.full(x.shape[1], -1)
    column[references] = np.arange(len(references))
    size = max(1, NUMBERS_AT_ONCE // len(references))
    for first, rows in _user_blocks(x):
        owners, places = _owners(rows), column[rows.indices]
        untouched = np.ones((rows.shape[0], len(references)), dtype=bool)
        untouched[owners[places >= 0], places[places >= 0]] = False
        free = np.maximum(untouched.sum(1), 1)
        known = (bias + (rows @ weights if len(weights) > 1 else 0.0) * np.ones((rows.shape[0], 1))).astype(np.float32)
        for begin in range(0, rows.nnz, size):
            part = slice(first + begin, first + min(begin + size, rows.nnz))
            user = owners[begin : begin + size]
            against = known[user] - weights[of[part]]
            own = scores[part, None].astype(np.float32)
            lower = (against < own) + 0.5 * (against == own)
            out[part] = (lower * untouched[user]).sum(1) / free[user]


def _user_blocks(x: Any) -> Iterator[tuple[int, Any]]:
    """Rows of some users, and where their entries begin."""
    for start in range(0, x.shape[0], USERS_AT_ONCE):
        yield int(x.indptr[start]), x[start : start + USERS_AT_ONCE]


def _owners(rows: Any) -> Ints:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
