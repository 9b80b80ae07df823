"""Scores without the interaction against models that were fitted without it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from accord.models.histories import interaction_matrix
from accord.posteriors import leave_one_out
from accord.posteriors.leave_one_out import families, low_rank, shares_below, sparse_history_sums
from helpers import dense, random_csr

TRAIN = random_csr(40, 12, 0.35, seed=3)
X = interaction_matrix(TRAIN)
DENSE = X.toarray()
L2, BALANCE, SHRINK = 500.0, 0.75, 100.0  # what the models have where nothing else is said


def found(name):
    return {family.name: family for family in families(X, low_rank(X, 4))}[name]


def ease_without(user, item):
    """The score of a pair by a ridge regression that has never seen this user's row."""
    others, rows = np.delete(np.arange(12), item), np.delete(np.arange(40), user)
    x = DENSE[np.ix_(rows, others)]
    weights = np.linalg.solve(x.T @ x + L2 * np.eye(11), x.T @ DENSE[rows, item])
    return DENSE[user, others] @ weights


def knn_without(user, item):
    together = DENSE.T @ DENSE
    sizes = np.diag(together)
    history = np.flatnonzero(DENSE[user])
    rest = history[history != item]
    return sum((together[j, item] - 1) / (sizes[j] ** BALANCE * sizes[item] ** (1 - BALANCE) + SHRINK) for j in rest)


def popularity_without(user, item):
    """How many others have the item."""
    return np.delete(DENSE, user, 0)[:, item].sum()


@pytest.mark.parametrize(
    ("name", "expected"), [("popularity", popularity_without), ("ease", ease_without), ("item-knn", knn_without)]
)
def test_scores_are_those_of_a_model_without_the_interaction(name, expected):
    wanted = [expected(user, item) for user, item in zip(TRAIN.users, TRAIN.items, strict=True)]
    np.testing.assert_allclose(found(name).scores, wanted, rtol=1e-9)


def test_pairs_outside_the_log_are_scored_as_those_in_it(monkeypatch):
    users, items = np.nonzero(DENSE == 0)
    monkeypatch.setattr(leave_one_out, "USERS_AT_ONCE", 17)
    for family in families(X, low_rank(X, 4), (users, items)):
        assert len(family.scores) == len(family.percentiles) == X.nnz + len(users)
        np.testing.assert_array_equal(family.scores[: X.nnz], found(family.name).scores)
        np.testing.assert_array_equal(family.percentiles[: X.nnz], found(family.name).percentiles)
        outside = family.scores[X.nnz :], family.percentiles[X.nnz :]
        without = {"popularity": popularity_without, "ease": ease_without}.get(family.name)
        if without is not None:
            wanted = [without(user, item) for user, item in zip(users, items, strict=True)]
            np.testing.assert_allclose(outside[0], wanted, rtol=1e-9)
        for user in (0, 7):  # of a user's pairs outside, those that score more beat more of the others
            own = users == user
            order = np.argsort(outside[0][own])
            assert (np.diff(outside[1][own][order]) >= -1e-6).all()


def test_many_items_take_another_way_to_the_same_scores(monkeypatch):
    before = found("item-knn").scores
    monkeypatch.setattr(leave_one_out, "MOST_DENSE", 0)
    monkeypatch.setattr(leave_one_out, "USERS_AT_ONCE", 7)
    more = families(X, low_rank(X, 4), (np.array([0, 3]), np.array([1, 2])))
    assert [family.name for family in more] == ["popularity", "low-rank", "item-knn"]
    assert all(np.isfinite(family.scores).all() for family in more)
    np.testing.assert_allclose(found("item-knn").scores, before, rtol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_an_item_that_nobody_has_changes_nothing(dense, monkeypatch):
    monkeypatch.setattr(leave_one_out, "MOST_DENSE", 13 if dense else 0)
    wider = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(40, 13))
    for one, other in zip(families(X, low_rank(X, 4)), families(wider, low_rank(wider, 4)), strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)


def test_factors_leave_the_interaction_out_of_the_history(monkeypatch):
    monkeypatch.setattr(leave_one_out, "MOST_DENSE", 0)
    factors = low_rank(X, 4)
    sizes = DENSE.sum(0)
    for user, item, score in zip(TRAIN.users, TRAIN.items, found("low-rank").scores, strict=True):
        history = DENSE[user].copy()
        history[item] = 0
        assert score == pytest.approx((history / np.sqrt(sizes)) @ factors.item @ factors.item[item])


def test_percentiles_compare_with_untouched_items_from_the_rest_of_the_history():
    together = DENSE.T @ DENSE
    sizes = np.diag(together).copy()
    weights = together / (sizes[:, None] ** BALANCE * sizes[None] ** (1 - BALANCE) + SHRINK)
    np.fill_diagonal(weights, 0)
    family = found("item-knn")
    for place, (user, item) in enumerate(zip(TRAIN.users, TRAIN.items, strict=True)):
        history = DENSE[user].copy()
        history[item] = 0
        others = (history @ weights)[DENSE[user] == 0].astype(np.float32)
        own = np.float32(family.scores[place])
        near = np.isclose(others, own, rtol=1e-5).sum()  # float32 may order these either way
        lower = (others < own).sum()
        assert abs(family.percentiles[place] * len(others) - lower) <= near + 1e-6


def test_factors_are_those_of_a_dense_decomposition():
    scaled = DENSE / np.sqrt(np.outer(DENSE.sum(1), DENSE.sum(0)))
    factors = low_rank(X, 5)
    np.testing.assert_allclose(factors.values, np.linalg.svd(scaled)[1][:5])
    again = low_rank(X, 5)
    assert np.array_equal(factors.user, again.user)
    assert low_rank(interaction_matrix(random_csr(1, 3, 1.0)), 5).user.shape == (1, 0)


PARTS = {"three": [np.ones((6, 5))] * 3, "many": [dense(random_csr(400, 300, 0.02)), *[np.ones((1, 1))] * 20]}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_factors_of_a_log_that_falls_into_parts_have_the_same_bits_every_time(parts, wide):
    """Then several values are 1, and their vectors are sought from random starts again and again."""
    x = sp.block_diag([part.T for part in parts] if wide else parts, "csr")
    one, other = low_rank(x, 12), low_rank(x, 12)
    assert np.isclose(one.values, 1).sum() > 2
    for name in ("user", "values", "item"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    scaled = x.toarray() / np.sqrt(np.maximum(np.outer(x.sum(1), x.sum(0)), 1))
    np.testing.assert_allclose(scaled @ one.item, one.user * one.values, atol=1e-9)


RNG = np.random.default_rng(0)
SOME = sp.csr_matrix((RNG.random((30, 14)) < 0.3).astype(float))
HISTORIES = SOME.toarray()
WEIGHTS = sp.csr_matrix(np.where(RNG.random((14, 14)) < 0.5, RNG.integers(0, 4, (14, 14)), 0) * (1 - np.eye(14)))
REFERENCES = np.array([0, 3, 4, 9, 12])
TO_REFERENCE = RNG.integers(0, 3, (14, 5)).astype(np.float32)
BIAS = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
USERS = np.repeat(np.arange(30), np.diff(SOME.indptr))


@pytest.fixture(params=["at once", "in parts"])
def _in_parts(request, monkeypatch):
    if request.param == "in parts":
        monkeypatch.setattr(leave_one_out, "USERS_AT_ONCE", 7)
        monkeypatch.setattr(leave_one_out, "NUMBERS_AT_ONCE", 20)


def below(weights, bias, scores):
    """The definition, one interaction at a time."""
    for user, item, score in zip(USERS, SOME.indices, scores, strict=True):
        history = HISTORIES[user].copy()
        history[item] = 0
        others = (bias + history @ weights)[HISTORIES[user, REFERENCES] == 0]
        yield ((others < score).sum() + 0.5 * (others == score).sum()) / max(len(others), 1)


@pytest.mark.usefixtures("_in_parts")
def test_sparse_weights_are_summed_over_the_history():
    wanted = (HISTORIES @ WEIGHTS.T.toarray())[USERS, SOME.indices]
    assert np.array_equal(sparse_history_sums(SOME, WEIGHTS), wanted)


@pytest.mark.usefixtures("_in_parts")
@pytest.mark.parametrize(("weights", "bias"), [(TO_REFERENCE, BIAS), (TO_REFERENCE, None), (None, BIAS)])
def test_the_share_of_untouched_references_below(weights, bias):
    scores = RNG.integers(0, 9, SOME.nnz).astype(float)
    wanted = list(below(0 * TO_REFERENCE if weights is None else weights, 0 if bias is None else bias, scores))
    np.testing.assert_allclose(shares_below(SOME, scores, REFERENCES, weights, bias), wanted)


@pytest.mark.parametrize("dense", [True, False])
def test_random_pairs_are_untouched_references_among_the_others_of_their_user(monkeypatch, dense):
    if not dense:
        monkeypatch.setattr(leave_one_out, "MOST_DENSE", 0)
    untouched = (DENSE == 0).sum(1)
    for family in families(X, low_rank(X, 4)):
        assert (
            len(family.random) == untouched[np.random.default_rng(0).choice(TRAIN.users, len(TRAIN.users), False)].sum()
        )
        assert (family.random >= 0).all()
        assert (family.random <= 1).all()
        assert family.random.mean() == pytest.approx(0.5)
