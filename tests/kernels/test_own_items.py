"""Items that users have, scored from the others and compared with untouched ones: compiled, plain, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from accord.kernels import cpu, neighbour_loops, own_items

RNG = np.random.default_rng(0)
X = sp.csr_matrix((RNG.random((30, 14)) < 0.3).astype(float))
DENSE = X.toarray()
WEIGHTS = sp.csr_matrix(np.where(RNG.random((14, 14)) < 0.5, RNG.integers(0, 4, (14, 14)), 0) * (1 - np.eye(14)))
REFERENCES = np.array([0, 3, 4, 9, 12])
TO_REFERENCE = RNG.integers(0, 3, (14, 5)).astype(np.float32)
BIAS = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
USERS = np.repeat(np.arange(30), np.diff(X.indptr))


@pytest.fixture(params=["compiled", "plain"])
def _each_way(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(cpu, "compiled", lambda: False)
        monkeypatch.setattr(own_items, "USERS_AT_ONCE", 7)
        monkeypatch.setattr(own_items, "NUMBERS_AT_ONCE", 20)


def below(weights, bias, scores):
    """The definition, one interaction at a time."""
    for user, item, score in zip(USERS, X.indices, scores, strict=True):
        history = DENSE[user].copy()
        history[item] = 0
        others = (bias + history @ weights)[DENSE[user, REFERENCES] == 0]
        yield ((others < score).sum() + 0.5 * (others == score).sum()) / max(len(others), 1)


@pytest.mark.usefixtures("_each_way")
def test_scores_are_sums_over_the_history():
    wanted = (DENSE @ WEIGHTS.T.toarray())[USERS, X.indices]
    assert np.array_equal(own_items.own_scores(X, WEIGHTS), wanted)


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize(("weights", "bias"), [(TO_REFERENCE, BIAS), (TO_REFERENCE, None), (None, BIAS)])
def test_the_share_of_untouched_references_below(weights, bias):
    scores = RNG.integers(0, 9, X.nnz).astype(float)
    wanted = list(below(0 * TO_REFERENCE if weights is None else weights, 0 if bias is None else bias, scores))
    found = own_items.shares_below(X, scores, REFERENCES, weights, bias)
    np.testing.assert_allclose(found, wanted)


def test_the_loops_say_the_same_uncompiled():
    ptr, items = X.indptr.astype(np.int64), X.indices
    found, scores = np.empty(X.nnz), RNG.integers(0, 9, X.nnz).astype(float)
    neighbour_loops.own_scores(ptr, items, WEIGHTS.indptr, WEIGHTS.indices, WEIGHTS.data, 0, 30, found)
    assert np.array_equal(found, own_items.own_scores(X, WEIGHTS))
    neighbour_loops.shares_below(ptr, items, items, REFERENCES, TO_REFERENCE, BIAS, scores, 0, 30, found)
    assert np.array_equal(found, own_items.shares_below(X, scores, REFERENCES, TO_REFERENCE, BIAS))
