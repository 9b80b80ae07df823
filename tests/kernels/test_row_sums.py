"""Sums of rows: as plain Python says, and compiled, at every width."""

from __future__ import annotations

import numpy as np
import pytest

from accord.kernels.row_sums import WIDTHS, compile_row_sums, sum_rows

numba = pytest.importorskip("numba")


def test_rows_times_factors_are_added_up():
    table, out = np.array([[1, 2], [10, 20], [100, 200]], np.float32), np.ones((2, 2), np.float32)
    given = table, np.array([2, 0, 1, 1]), np.array([1, 2, 3, 4], np.float32)
    sum_rows(*given, 1, 3, out, 0)
    assert out.tolist() == [[2 + 30, 4 + 60], [1, 1]]
    sum_rows(*given, 2, 2, out, 0)
    assert out.tolist() == [[0, 0], [1, 1]], "an empty list"


@pytest.mark.parametrize("dim", [1, 3, WIDTHS[1], sum(WIDTHS) + 2 * WIDTHS[0]])
def test_compiled_sums_of_rows(dim):
    """Products that are exact in single precision, so that no order of the sums and no fused addition shows."""
    compile_row_sums()

    @numba.njit
    def called(table, columns, factors, start, end, out, n):
        sum_rows(table, columns, factors, start, end, out, n)

    rng = np.random.default_rng(0)
    table, factors = (rng.integers(-50, 50, size).astype(np.float32) for size in ((7, dim), 20))
    columns = rng.integers(0, 7, 20)
    found, expected = np.full((2, 3, dim), 9, np.float32)
    for n, (start, end) in enumerate([(0, 20), (5, 5), (3, 4)]):
        called(table, columns, factors, start, end, found, n)
        sum_rows(table, columns, factors, start, end, expected, n)
    assert np.array_equal(found, expected)
    with pytest.raises(numba.TypingError):  # rows that do not lie one after another would be read at wrong places
        called(table[::2], columns, factors, 0, 1, found, 0)
