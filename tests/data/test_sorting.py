from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.sorting import distinct, lexsort, rises

KINDS = {
    "few": lambda rng, size: rng.integers(-3, 3, size),
    "narrow": lambda rng, size: rng.integers(0, 40, size).astype(np.int32),
    "widest": lambda rng, size: rng.choice([-(2**63), -1, 0, 1, 2**62, 2**63 - 1], size),
    "random": lambda rng, size: rng.integers(-(2**63), 2**63 - 1, size),
    "float": lambda rng, size: rng.choice([-np.inf, -1.5, -0.0, 0.0, 1e-300, 2.0, np.inf, np.nan], size),
    "permutation": lambda rng, size: rng.permutation(size),
    "constant": lambda rng, size: np.full(size, 7),
}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4), st.integers(0, 300), st.integers(0, 2**32))
def test_the_order_is_numpys(kinds: list[str], size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [KINDS[kind](rng, size) for kind in kinds]
    before = [key.copy() for key in keys]
    assert lexsort(keys).tolist() == np.lexsort(keys).tolist()
    for key, same in zip(keys, before, strict=True):
        np.testing.assert_array_equal(key, same)


def test_many_rows_leave_little_room_for_keys() -> None:
    rng = np.random.default_rng(0)
    keys = [rng.permutation(200_000), rng.integers(0, 2**40, 200_000) // 2**20, rng.integers(0, 300, 200_000)]
    order = lexsort(keys)
    assert order.dtype == np.int32
    np.testing.assert_array_equal(order, np.lexsort(keys))


@pytest.mark.parametrize("keys", [[], [4], [1, 1], [3, 1, 2, 3, 1], [-1, 0, 5]])
def test_distinct_and_rising(keys: list[int]) -> None:
    array = np.array(keys, dtype=np.int64)
    assert distinct(array).tolist() == sorted(set(keys))
    assert array.tolist() == keys
    assert rises(array) == (keys == sorted(set(keys)))
