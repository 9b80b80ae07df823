"""Which interactions to label next."""

from __future__ import annotations

import numpy as np

from accord.posteriors.next_labels import next_labels, uncertainty


def test_most_is_unsure_of_what_is_as_likely_as_not():
    p_real = np.array([0.9, 0.45, 0.0, 0.7])
    assert np.argsort(uncertainty(p_real, used=True)).tolist() == [2, 0, 3, 1]
    anything = uncertainty(p_real, used=False)
    np.testing.assert_array_equal(anything, uncertainty(p_real[::-1], used=False))
    assert len(set(anything)) == 4


def test_no_two_of_a_user_or_an_item_until_these_run_out():
    users, items = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])
    unsure = np.array([0.1, 0.2, np.nan, 0.15])
    assert next_labels(unsure, users, items, 10).tolist() == [1, 3, 0]
    assert next_labels(unsure, users, items, 1).tolist() == [1]
    assert next_labels(np.full(4, np.nan), users, items, 3).tolist() == []
