"""Sparse EASE against EASE and against dense regressions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import accord
from accord.models import sparse_ease
from accord.models.base import Shape
from accord.models.sparse_ease import SparseEASE
from helpers import make_model, random_csr, small_data
from oracles import EMPTY, PLAIN, dense, each_case, history_of, scores_of, weighted

FULL = random_csr(60, 12, 0.5)  # every two items were taken together by somebody
OPTIONS = [{}, {"dropout": 0.4}, {"user_norm": 0.5}, {"dropout": 0.2, "user_norm": 0.3}]


@pytest.mark.parametrize("dim", [0, 4])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("train", [FULL, weighted(FULL)], ids=["plain", "weighted"])
def test_with_all_items_as_neighbours_it_is_ease(train, options, dim):
    exact = make_model("ease", train, l2=3, **options)
    model = make_model("sparse-ease", train, l2=3, neighbours=11, dim=dim, **options)
    np.testing.assert_allclose(model.item_to_item().numpy(), exact.weight.numpy(), atol=2e-5)
    np.testing.assert_allclose(scores_of(model), scores_of(exact), atol=1e-4)


def restricted(x, penalty, near, basis):
    """Each item regressed on the others with weights in the span of its neighbours and of `basis`: [I, I]."""
    num_items = x.shape[1]
    found = np.zeros((num_items, num_items))
    for item in range(num_items):
        span = np.hstack([np.eye(num_items)[:, near[item]], basis])
        span[item] = 0
        rows = np.vstack([x @ span, np.sqrt(penalty)[:, None] * span])
        wanted = np.append(x[:, item], np.zeros(num_items))
        found[:, item] = span @ np.linalg.lstsq(rows, wanted, rcond=1e-9)[0]
    return found


@each_case
@pytest.mark.parametrize(("neighbours", "dim"), [(3, 0), (1, 2), (4, 5)])
def test_against_dense_regressions(train, neighbours, dim):
    x = dense(train)
    gram = x.T @ x
    penalty = 2 + 0.25 / 0.75 * np.diag(gram)
    alone = np.where(gram > 0, gram / (np.diag(gram) + penalty)[:, None] ** 0.75, 0)
    np.fill_diagonal(alone, 0)
    order = np.argsort(-alone, axis=0, kind="stable")[:neighbours].T
    near = [[i for i in row if alone[i, j] > 0] for j, row in enumerate(order)]
    model = make_model("sparse-ease", train, l2=2, neighbours=neighbours, dim=dim, dropout=0.25)
    basis = model.basis.numpy().astype(np.float64)
    expected = restricted(x, penalty, near, basis)
    np.testing.assert_allclose(model.item_to_item().numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(scores_of(model), x @ expected, atol=1e-4)
    np.testing.assert_allclose(model.fold_in(torch.tensor([1, 5]))[0].numpy(), expected[[1, 5]].sum(0), atol=1e-4)


def test_the_basis_is_that_of_a_singular_value_decomposition():
    x = dense(random_csr(80, 30, 0.2))
    found = make_model("sparse-ease", random_csr(80, 30, 0.2), dim=3).basis.numpy()
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-5)
    rows = np.linalg.svd(x)[2]
    assert np.linalg.norm(x @ found) == pytest.approx(np.linalg.norm(x @ rows[:3].T), rel=0.01)
    assert abs(found[:, 0] @ rows[0]) == pytest.approx(1, abs=1e-3)


def test_pairs_that_are_not_kept_count_as_never_taken_together(monkeypatch):
    """Such a matrix may be none of any log; weights stay as small as the penalty makes them."""
    train = random_csr(60, 20, 0.5)
    monkeypatch.setattr(sparse_ease, "PAIRS_KEPT", 20)
    model = make_model("sparse-ease", train, l2=0.01, neighbours=2, dim=0)
    kept = make_model("sparse-ease", train, l2=0.01, neighbours=2, dim=0).item_to_item()
    assert torch.isfinite(model.item_to_item()).all()
    assert torch.equal(model.item_to_item(), kept)
    monkeypatch.undo()
    assert not torch.equal(make_model("sparse-ease", train, l2=0.01, neighbours=8, dim=0).item_to_item(), kept)


def test_any_number_of_threads_gives_the_same_bits():
    train = random_csr(300, 150, 0.05)
    one = make_model("sparse-ease", train, neighbours=20, dim=8)
    try:
        torch.set_num_threads(3)
        several = make_model("sparse-ease", train, neighbours=20, dim=8)
        assert torch.equal(one.score_all(torch.arange(300)), several.score_all(torch.arange(300)))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(tensor, several.state_dict()[name]) for name, tensor in one.state_dict().items())


def test_somebody_new_gets_the_list_of_a_user_with_the_same_history():
    model = make_model("sparse-ease", PLAIN, neighbours=4, dim=3)
    np.testing.assert_allclose(model.fold_in(history_of(PLAIN, 7))[0].numpy(), scores_of(model, [7])[0], atol=1e-5)


def test_items_that_nobody_took_have_no_weight():
    model = make_model("sparse-ease", EMPTY, neighbours=3, dim=2)
    nobody = EMPTY.popularity() == 0
    assert nobody.any()
    assert not model.item_to_item().numpy()[:, nobody].any()


def test_a_saved_run_recommends_alike(tmp_path):
    made = accord.fit(small_data(), "sparse-ease", options={"model.neighbours": 5, "model.dim": 4}, device="cpu")
    again = accord.Recommender.load(made.save(tmp_path / "run"))
    assert again.recommend(k=5).equals(made.recommend(k=5))


def test_memory_follows_the_interactions_and_not_the_square_of_the_items():
    shape = Shape(1_000_000, 1_000_000, 10_000_000, 350_000_000, 10**10)
    assert SparseEASE.cost(SparseEASE.Config(), shape).memory < 8 * 2**30
