"""iALS against its own loss, solved row by row with dense matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import accord
from accord.errors import InputError
from accord.kernels import cpu, least_squares
from helpers import make_model, random_csr, small_data
from oracles import EMPTY, PLAIN, dense, each_case, history_of, scores_of, weighted, with_threads

OPTIONS = {"dim": 3, "alpha": 0.2, "penalty": 0.05, "nu": 0.7}


def solved(x, other, alpha, penalty, nu):
    """The best vector of each row of x [n, m] for fixed vectors of the columns [m, d]."""
    found = np.zeros((len(x), other.shape[1]))
    for row, counts in enumerate(x):
        left = (other * (counts + alpha)[:, None]).T @ other
        left += penalty * (counts.sum() + alpha * len(other)) ** nu * np.eye(other.shape[1])
        found[row] = np.linalg.solve(left, counts @ other)
    return found


def loss(x, user, item, alpha, penalty, nu):
    scores = user @ item.T
    sizes = [x.sum(axis) + alpha * x.shape[axis] for axis in (1, 0)]
    decay = sum((size**nu * (rows**2).sum(1)).sum() for size, rows in zip(sizes, (user, item), strict=True))
    return (x * (scores - 1) ** 2).sum() + alpha * (scores**2).sum() + penalty * decay


def vectors(model, run=0):
    return model.user[run].double().numpy(), model.item[run].double().numpy()


@each_case
def test_an_iteration_solves_items_and_then_users(train):
    x = dense(train)
    options = {name: OPTIONS[name] for name in ("alpha", "penalty", "nu")}
    _, before = vectors(make_model("ials", train, **OPTIONS, iterations=3))
    user, item = vectors(make_model("ials", train, **OPTIONS, iterations=4))
    expected = solved(x.T, solved(x, before, **options), **options)
    # both sides may be turned alike, so products are compared
    np.testing.assert_allclose(item @ item.T, expected @ expected.T, atol=5e-5)
    np.testing.assert_allclose(user, solved(x, item, **options), atol=2e-5)
    np.testing.assert_allclose(item.T @ item, np.diag(np.diag(item.T @ item)), atol=1e-5)


@pytest.mark.parametrize("dim", [1, 4, 9, 40])
def test_short_and_long_rows_are_solved_alike(dim):
    """Rows shorter than the vectors have as many equations as entries, others as many as dimensions."""
    options = {name: OPTIONS[name] for name in ("alpha", "penalty", "nu")}
    user, item = vectors(make_model("ials", weighted(PLAIN), dim=dim, **options, iterations=5))
    np.testing.assert_allclose(user, solved(dense(weighted(PLAIN)), item, **options), atol=2e-5)


def test_iterations_end_where_exact_ones_end(monkeypatch):
    """An iteration takes a few steps towards what is best, which is enough of them together."""
    options = {name: OPTIONS[name] for name in ("alpha", "penalty", "nu")}
    x = dense(weighted(PLAIN))
    user, item = vectors(make_model("ials", weighted(PLAIN), dim=9, **options, iterations=30))
    with monkeypatch.context() as patched:
        patched.setattr("accord.models.ials.STEPS", 9)  # as many as there are unknowns: solved exactly
        best = loss(x, *vectors(make_model("ials", weighted(PLAIN), dim=9, **options, iterations=30)), **options)
    assert loss(x, user, item, **options) == pytest.approx(best, rel=1e-3)
    monkeypatch.setattr(cpu, "_compiled", lambda: None)
    plain = vectors(make_model("ials", weighted(PLAIN), dim=9, **options, iterations=30))
    np.testing.assert_allclose(plain[0] @ plain[1].T, user @ item.T, atol=1e-3)


def test_no_step_away_from_where_it_ends_lowers_the_loss():
    x = dense(PLAIN)
    options = {name: OPTIONS[name] for name in ("alpha", "penalty", "nu")}
    user, item = vectors(make_model("ials", PLAIN, **OPTIONS, iterations=300))
    least, rng = loss(x, user, item, **options), np.random.default_rng(0)
    for _ in range(50):
        there = loss(x, *(part + 1e-2 * rng.standard_normal(part.shape) for part in (user, item)), **options)
        assert there > least


def test_weights_of_two_are_weights_of_one_where_other_pairs_count_half():
    """The penalty grows with the weights, so all terms of the loss are doubled."""
    twice = replace(PLAIN, columns={"weight": np.full(len(PLAIN.items), 2.0)})
    half = make_model("ials", PLAIN, dim=3, alpha=0.1, penalty=0.05, nu=1.0)
    whole = make_model("ials", twice, dim=3, alpha=0.2, penalty=0.05, nu=1.0)
    np.testing.assert_allclose(scores_of(whole), scores_of(half), atol=1e-4)


@each_case
def test_scores_and_fold_in(train):
    model = make_model("ials", train, **OPTIONS)
    user, item = vectors(model)
    np.testing.assert_allclose(scores_of(model), user @ item.T, atol=1e-5)
    new = np.zeros((1, train.num_items))
    new[0, [1, 5, 6]] = 1
    expected = solved(new, item, 0.2, 0.05, 0.7) @ item.T
    np.testing.assert_allclose(model.fold_in(torch.tensor([1, 5, 6])).numpy(), expected, atol=1e-5)
    assert torch.equal(model.item_vectors(), model.item[0])
    user_rows, item_rows = model.factors(torch.tensor([[3, 1]]))
    torch.testing.assert_close(user_rows @ item_rows.mT, model.score_all(torch.tensor([3, 1])))


def test_somebody_new_gets_the_list_of_a_user_with_the_same_history():
    model = make_model("ials", PLAIN, (1, 2), **OPTIONS)
    torch.testing.assert_close(model.fold_in(history_of(PLAIN, 7)), model.score_all(torch.tensor([7]))[:, 0])


def test_who_has_nothing_has_no_vector():
    model = make_model("ials", EMPTY, **OPTIONS)
    assert not model.user[0, 30:].any()
    assert not model.item[0, 14:].any()


def test_blocks_change_little_and_threads_nothing(monkeypatch):
    whole = make_model("ials", PLAIN, **OPTIONS)
    assert torch.equal(with_threads(2, lambda: make_model("ials", PLAIN, **OPTIONS).user), whole.user)
    monkeypatch.setattr(least_squares, "NUMBERS_AT_ONCE", 30)
    parts = make_model("ials", PLAIN, **OPTIONS)
    np.testing.assert_allclose(scores_of(parts), scores_of(whole), atol=1e-5)
    for threads in (2, 3):  # many blocks at once
        assert torch.equal(with_threads(threads, lambda: make_model("ials", PLAIN, **OPTIONS).user), parts.user)


@pytest.mark.parametrize(("dim", "small"), [(8, 1e-12), (64, 1e-25)], ids=["not solved", "not a number"])
def test_a_penalty_that_is_too_small_is_told(dim, small):
    with pytest.raises(InputError, match=r"raise model\.penalty"):
        make_model("ials", PLAIN, dim=dim, alpha=small, penalty=small)


def test_every_seed_is_a_run_with_a_validation_of_its_own():
    made = accord.fit(small_data(), "ials", seeds=3, device="cpu", options={"model.dim": 4})
    found = [entry["valid_ndcg@20"] for entry in made.metrics["runs"]]
    assert len(set(found)) == 3
    for number, seed in enumerate(made.run.config.seeds):
        alone = accord.fit(small_data(), "ials", seeds=[seed], device="cpu", options={"model.dim": 4})
        torch.testing.assert_close(alone.method.target.user[0], made.method.target.user[number], rtol=1e-4, atol=1e-5)
        one, other = alone.metrics["runs"][0], made.metrics["runs"][number]
        assert one["metrics"] == pytest.approx(other["metrics"])
        assert one["valid_ndcg@20"] == pytest.approx(other["valid_ndcg@20"])
    assert made.chosen == int(np.argmax(found))


@torch.inference_mode()
def test_contributions_add_up_where_interactions_have_weights():
    plain = random_csr(20, 15, 0.3)
    train = replace(plain, columns={"weight": np.random.default_rng(0).random(len(plain.items)) + 0.5})
    model = make_model("ials", train, dim=4)
    history = torch.from_numpy(train.items[train.ptr[3] : train.ptr[4]]).long()
    added = model.contributions(history, torch.arange(15), 3)
    torch.testing.assert_close(added.sum(1), model.score_all(torch.tensor([3]))[:, 0], rtol=1e-3, atol=1e-5)
