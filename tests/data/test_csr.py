from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data import csr as csr_module
from accord.data.csr import Csr
from helpers import random_csr


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=40), st.booleans())
def test_csr(pairs: list[tuple[int, int]], unique: bool) -> None:
    users, items = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    csr = Csr.of(users, items, 6, 5, unique)
    expected = sorted(set(pairs)) if unique else sorted(pairs)
    assert list(zip(csr.users.tolist(), csr.items.tolist(), strict=True)) == expected
    assert csr.items.dtype == csr.ptr.dtype == np.int64


def test_a_matrix_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = random_csr(40, 20, 0.3, 1), random_csr(40, 20, 0.3, 2)
    both, popular = one.merge(other), one.popularity()
    assert both.keys.tolist() == sorted({*one.keys.tolist(), *other.keys.tolist()})
    assert both.items.dtype == both.ptr.dtype == np.int64
    monkeypatch.setattr(csr_module, "LONG_AT_MOST", 17)
    assert one.merge(other).items.dtype == np.int32
    monkeypatch.setattr(csr_module, "PAIRS_AT_ONCE", 17)
    assert np.array_equal(popular, one.popularity())
    assert np.array_equal(np.concatenate(list(one.key_parts())), one.keys)


PAIRS = (np.array([2, 0, 0, 2]), np.array([1, 3, 1, 1]))


def test_a_matrix_by_hand() -> None:
    found = Csr.of(*PAIRS, num_users=4, num_items=5)
    assert found.ptr.tolist() == [0, 2, 2, 3, 3]
    assert found.items.tolist() == [1, 3, 1]
    assert found.counts.tolist() == [2, 0, 1, 0]
    assert found.popularity().tolist() == [0, 2, 0, 1, 0]
    assert found.keys.tolist() == [1, 3, 11]
    assert found.contains(np.array([0, 0, 2, 3]), np.array([1, 2, 1, 4])).tolist() == [True, False, True, False]
    assert Csr.of(*PAIRS, num_users=4, num_items=5, unique=False).counts.tolist() == [2, 0, 2, 0]
    empty = Csr.of(np.zeros(0, np.int64), np.zeros(0, np.int64), 4, 5)
    assert empty.contains(*PAIRS).tolist() == [False] * 4
    assert empty.merge(found).items.tolist() == [1, 3, 1]


def test_users_that_lie_beside_the_items_are_used_as_they_are() -> None:
    made = Csr.of(*PAIRS, num_users=4, num_items=5)
    assert made.owners.tolist() == [0, 0, 2]
    stored = Csr(made.ptr, made.items.astype(np.int32), 5, np.array([0, 0, 2], dtype=np.int32))
    assert stored.owners.dtype == np.int32
    assert stored.owners is stored.stored_users


def test_very_many_pairs_are_held_in_half_the_memory(monkeypatch):
    users, items = np.array([2, 0, 2]), np.array([1, 3, 0])
    long = Csr.of(users, items, 3, 4)
    monkeypatch.setattr(csr_module, "LONG_AT_MOST", 2)
    short = Csr.of(users, items, 3, 4)
    for one, size in ((long, 8), (short, 4)):
        assert one.items.itemsize == one.owners.itemsize == size
        assert one.items.tolist() == [3, 0, 1]
        assert one.owners.tolist() == one.users.tolist() == [0, 2, 2]
        assert one.keys.tolist() == [3, 8, 9]
