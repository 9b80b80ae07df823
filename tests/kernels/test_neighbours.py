"""The compiled loops over neighbours against their plain forms, and these against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from accord.kernels import cpu, neighbours
from accord.kernels.neighbours import history_scores, k_best, local_ridges, nearest_items, neighbour_scores


def log(users=40, items=25, share=0.2, seed=0, weights=False):
    rng = np.random.default_rng(seed)
    x = (rng.random((users, items)) < share) * (rng.integers(1, 12, (users, items)) / 4 if weights else 1.0)
    x[:, 3] = 0  # an item that nobody took
    return sp.csr_matrix(x)


def plain(monkeypatch):
    monkeypatch.setattr(cpu, "compiled", lambda: False)


def both(monkeypatch, work):
    """What the compiled and the plain form give."""
    assert cpu.compiled(), "numba is among the packages that tests need"
    found = work()
    plain(monkeypatch)
    return found, work()


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("k", "shrink"), [(1, 0.0), (4, 0.0), (4, 3.0), (1000, 1.0)])
def test_nearest_items_are_the_reference_ones(monkeypatch, k, shrink, weights):
    x = log(weights=weights)
    own, other = np.random.default_rng(1).uniform(0.5, 2, (2, 25))
    if not weights:
        own[:], other[:] = 1, 1  # many are equal, and the earlier ones are kept
    monkeypatch.setattr(neighbours, "ENTRIES_AT_ONCE", 60)
    fast, slow = both(monkeypatch, lambda: nearest_items(x, k, own, other, shrink))
    assert np.array_equal(fast.counts, slow.counts)
    assert np.array_equal(fast.columns[fast.mask], slow.columns[slow.mask])
    np.testing.assert_allclose(fast.together[fast.mask], slow.together[slow.mask], rtol=1e-12)
    gram = (x.T @ x).toarray()
    for item in range(25):
        near = fast.columns[item, : fast.counts[item]]
        np.testing.assert_allclose(fast.together[item, : fast.counts[item]], gram[near, item])
        assert item not in near
        rest = np.setdiff1d(np.arange(25), [*near, item])
        alike = gram[:, item] / (own * other[item] + shrink)
        assert not len(near) or not len(rest) or alike[near].min() >= alike[rest].max()
        assert len(near) == min(k, (np.delete(gram[:, item], item) > 0).sum())


def test_weights_that_are_zero_make_no_neighbours(monkeypatch):
    x = sp.csr_matrix((np.zeros(4), ([0, 0, 1, 1], [0, 1, 1, 2])), shape=(2, 3))
    fast, slow = both(monkeypatch, lambda: nearest_items(x, 2, np.ones(3), np.ones(3)))
    assert not fast.counts.any()
    assert not slow.counts.any()


@pytest.mark.parametrize("dim", [0, 3])
@pytest.mark.parametrize("k", [2, 6, 24])
def test_local_ridges_are_the_reference_ones(monkeypatch, k, dim):
    x = log(weights=True)
    sizes, ones = np.asarray(x.multiply(x).sum(0)).ravel(), np.ones(25)
    penalty = 1 + 0.1 * sizes
    basis = np.linalg.qr(np.random.default_rng(2).normal(size=(25, dim)))[0]
    image = x.T @ (x @ basis) + penalty[:, None] * basis
    near, pairs = nearest_items(x, k, ones, ones), nearest_items(x, 24, ones, ones, dtype=np.float32)
    fast, slow = both(monkeypatch, lambda: local_ridges(near, pairs, sizes + penalty, penalty, basis, image))
    for item in range(25):  # a and b may say the same in two ways; what they say together is one
        own = [basis @ spread[item] for _, spread in (fast, slow)]
        for found, (weights, _) in zip(own, (fast, slow), strict=True):
            found[near.columns[item, : near.counts[item]]] += weights[item, : near.counts[item]]
            found[item] = 0
        np.testing.assert_allclose(own[0], own[1], atol=1e-5)


@pytest.mark.parametrize("rows", [[], [3], [0, 39, 0, 7] * 50])
def test_scores_of_histories_are_a_product(monkeypatch, rows):
    x, weights = log(weights=True).astype(np.float32), log(25, 25, 0.4, seed=3, weights=True).astype(np.float32)
    wanted = np.array(rows, dtype=np.int64)
    fast, slow = both(monkeypatch, lambda: history_scores(x, weights, wanted))
    assert fast.shape == (len(rows), 25)
    np.testing.assert_allclose(fast, slow, rtol=1e-6)
    np.testing.assert_allclose(fast, x.toarray()[wanted] @ weights.toarray(), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_gpu_adds_up_the_same_scores(monkeypatch, weighted):
    monkeypatch.setattr(neighbours, "USERS_AT_ONCE", 3)
    x, rows = log(weights=True).astype(np.float32), np.array([4, 0, 19, 4, 7])
    weights = log(25, 25, 0.4, seed=3, weights=True).astype(np.float32)
    x.data = x.data if weighted else np.ones_like(x.data)
    x_parts, w_parts = ([torch.from_numpy(p) for p in (m.indptr, m.indices, m.data)] for m in (x, weights))
    own = (*x_parts[:2], x_parts[2] if weighted else None)
    found = neighbours.sums_of_rows(torch.from_numpy(rows), own, w_parts)
    np.testing.assert_allclose(found.numpy(), (x[rows] @ weights).toarray(), atol=1e-6)


@pytest.mark.parametrize(("k", "shrink"), [(1, 0.0), (5, 2.0), (1000, 0.5)])
@pytest.mark.parametrize("weights", [False, True])
def test_scores_by_near_users_are_the_reference_ones_for_any_number_of_threads(monkeypatch, k, shrink, weights):
    x = log(weights=weights).astype(np.float32)
    norm, known = np.sqrt(x.multiply(x).sum(1).A1).astype(np.float32), np.arange(40)
    known[7] = -1  # somebody new with the same history has that user for a neighbour
    monkeypatch.setattr(neighbours, "ENTRIES_AT_ONCE", 60)

    def work():
        return neighbour_scores(x, norm, known, x.T.tocsr(), x, norm, shrink, k)

    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(work())
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    fast, slow = both(monkeypatch, work)
    np.testing.assert_allclose(fast, slow, rtol=1e-6)
    alike = (x @ x.T).toarray() / np.maximum(np.outer(norm, norm) + shrink, 1e-9)
    alike[known[known >= 0], known[known >= 0]] = 0
    kept = np.sort(np.argsort(-alike[7], kind="stable")[:k])
    np.testing.assert_allclose(fast[7], alike[7, kept] @ x.toarray()[kept], rtol=1e-5)


def test_the_work_says_how_far_it_is():
    shares = []
    nearest_items(log(), 3, np.ones(25), np.ones(25), on_progress=shares.append)
    assert shares[-1] == max(shares) == 1
    assert len(shares) > 1


def test_any_number_of_threads_gives_the_same_neighbours():
    x = log(200, 90, weights=True)
    one = nearest_items(x, 7, np.ones(90), np.ones(90))
    try:
        torch.set_num_threads(3)
        several = nearest_items(x, 7, np.ones(90), np.ones(90))
    finally:
        torch.set_num_threads(1)
    assert all(np.array_equal(a[one.mask], b[one.mask]) for a, b in zip(one[1:], several[1:], strict=True))


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_the_k_best_are_those_of_a_full_sort(k):
    rng = np.random.default_rng(k)
    dense = rng.integers(0, 4, (30, 12)).astype(float)  # few levels, so most places are tied
    found = k_best(sp.csr_matrix(dense), k).toarray()
    for row, kept in zip(dense, found, strict=True):
        order = [column for column in np.lexsort((np.arange(12), -row)) if row[column] > 0][:k]
        expected = np.zeros(12)
        expected[order] = row[order]
        assert kept.tolist() == expected.tolist()
