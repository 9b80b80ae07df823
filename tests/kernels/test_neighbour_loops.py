"""The loops as Python, without a compiler."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from accord.kernels import neighbour_loops
from accord.kernels.neighbours import history_scores, local_ridges, nearest_items


def test_the_loops_say_the_same_uncompiled():
    x = sp.csr_matrix((np.random.default_rng(0).random((12, 8)) < 0.5).astype(float))
    parts = [(m.indptr.astype(np.int64), m.indices.astype(np.int32), m.data) for m in (x, x.T.tocsr())]
    ones = np.ones(8)
    counts, columns, together = np.zeros(8, dtype=np.int64), np.empty((8, 3), dtype=np.int32), np.empty((8, 3))
    given = np.arange(8), ones, ones, 0.0
    neighbour_loops.nearest(*parts[1], *parts[0], *given, counts, columns, together)
    found = nearest_items(x, 3, ones, ones)
    assert counts.min() == 3
    assert np.array_equal(columns, found.columns)
    assert np.array_equal(together, found.together)

    sizes = x.multiply(x).sum(0).A1
    basis = np.eye(8)[:, :2]
    image = x.T @ (x @ basis) + basis
    pairs = nearest_items(x, 8, ones, ones, dtype=np.float32)
    given = found, pairs, sizes + 1, ones, basis, image
    weights, spread = np.zeros((8, 3), dtype=np.float32), np.zeros((8, 2), dtype=np.float32)
    neighbour_loops.local_ridges(*found, *pairs, 0, *given[2:], basis.T @ image, weights, spread)
    expected = local_ridges(*given)
    np.testing.assert_allclose(weights, expected[0], atol=1e-5)
    np.testing.assert_allclose(spread, expected[1], atol=1e-5)

    rows, small = np.array([4, 0]), x.astype(np.float32)
    out, square = np.zeros((2, 8), dtype=np.float32), (x.T @ x).tocsr().astype(np.float32)
    tables = [part for m in (small, square) for part in (m.indptr, m.indices, m.data)]
    neighbour_loops.history_scores(*tables, rows, out)
    assert np.array_equal(out, history_scores(small, square, rows))
