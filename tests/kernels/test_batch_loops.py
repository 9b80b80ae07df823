"""The loops by hand, as the Python that they are: what numba makes of them is the subject of test_cpu."""

from __future__ import annotations

import numpy as np

from accord.kernels import batch_loops


def test_distinct_ids_in_the_order_in_which_they_come():
    rows, places, number = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(1, np.int64)
    batch_loops.distinct(np.array([7, 2, 7, 0, 2]), np.zeros(8, np.int32), rows, places, number)
    assert number.tolist() == [3]
    assert rows.tolist() == [7, 2, 0, 7, 7], "filled up with the first"
    assert places.tolist() == [0, 1, 0, 2, 1]


def test_distinct_ids_in_ascending_order():
    rows, places, number = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(1, np.int64)
    batch_loops.distinct_ascending(np.array([7, 2, 7, 0, 2]), np.zeros(8, np.int32), rows, places, number)
    assert number.tolist() == [3]
    assert rows[:3].tolist() == [0, 2, 7]
    assert places.tolist() == [2, 1, 2, 0, 1]


def test_points_on_what_is_left_of_a_line():
    """Of ten items the first row has 0, 3, 4 and 9, and the last one 5."""
    ptr, cuts, skipped = np.array([0, 4, 4, 5]), np.array([0, 2, 2, 6, 25]), np.array([1, 2, 3, 4, 1])
    out = np.zeros(6, np.int64)
    rows, numbers = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 2, 11, 7, 4, 5])
    batch_loops.unseen(rows, numbers, np.array([6, 10, 9]), ptr, cuts, skipped, 10, out)
    assert out.tolist() == [1, 5, 8, 7, 4, 6]


def test_histories_end_to_end_and_the_last_again():
    owners, places = np.zeros(5, np.int64), np.zeros(5, np.int64)
    batch_loops.end_to_end(np.array([0, 1, 1, 3]), np.array([2, 0, 1]), owners, places)
    assert owners.tolist() == [2, 2, 0, 0, 0]
    assert places.tolist() == [1, 2, 0, 0, 0]


def test_more_numbers_of_a_row_than_are_searched_for_together():
    """Of five items the row has 1 and 3, so that 0, 2 and 4 are left."""
    numbers, out = np.arange(150), np.zeros(150, np.int64)
    line = np.array([0, 2]), np.array([1, 2]), np.array([1, 2])
    batch_loops.unseen(np.zeros(150, np.int64), numbers, np.array([3]), *line, 5, out)
    assert out.tolist() == [0, 2, 4] * 50


def test_every_loop_is_compiled():
    public = {
        name for name, value in vars(batch_loops).items() if getattr(value, "__module__", "") == batch_loops.__name__
    }
    assert {loop.__name__ for loop in batch_loops.ALL} == public
