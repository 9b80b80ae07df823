"""SLIST and its sparse sibling, against the regressions that they solve, row by row."""

import numpy as np
import pytest

from accord import Recommender, fit
from accord.consensus.families import plan_search
from accord.models import sequences
from accord.models.base import Shape
from helpers import dense, histories, make_model, timed_csr, walk

LOG = timed_csr(40, 10, 0.5)


def equations(train, l2, half_life, reach, whole, weight):
    """X'X and Z'Z with the penalty, X'X and Z'Y, of moments that are written out."""
    before, after = [], []
    for own in histories(train):
        for t in range(1, len(own)):
            past, future = np.zeros(train.num_items), np.zeros(train.num_items)
            past[train.items[own[:t]]] = 2.0 ** (-np.arange(t)[::-1] / half_life) * weight[own[:t]]
            future[train.items[own[t:]]] = 2.0 ** (-np.arange(len(own) - t) / reach) * weight[own[t:]]
            before.append(past)
            after.append(future)
    z, y, x = np.array(before), np.array(after), dense(train)
    x[train.users, train.items] = weight
    scale = 1 - 2 ** (-2 / half_life)
    gram = whole * x.T @ x + (1 - whole) * scale * z.T @ z + l2 * np.eye(train.num_items)
    return gram, whole * x.T @ x + (1 - whole) * scale * z.T @ y


def expected(*given):
    gram, target = equations(*given)
    inverse = np.linalg.inv(gram)
    product = inverse @ target
    result = product - inverse * (np.diag(product) / np.diag(inverse))
    np.fill_diagonal(result, 0)
    return result


def restricted(near, *given):
    """Each column regressed on `near` items alone: those that explain it best, each by itself, of those it followed."""
    gram, target = equations(*given)
    alone = target / np.diag(gram)[:, None] ** 0.75
    np.fill_diagonal(alone, -np.inf)
    result = np.zeros(gram.shape)
    for j in range(len(gram)):
        some = [i for i in np.argsort(-alone[:, j])[:near] if alone[i, j] > 0]
        result[some, j] = np.linalg.solve(gram[np.ix_(some, some)], target[some, j])
    return result


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("half_life", "reach", "whole"), [(9.0, 8.0, 0.0), (20.0, 9.0, 0.4)])
def test_weights_are_those_of_the_regression(half_life, reach, whole, weighted):
    weight = np.random.default_rng(0).random(len(LOG.items)) + 0.5 if weighted else np.ones(len(LOG.items))
    LOG.columns.pop("weight", None)
    if weighted:
        LOG.columns["weight"] = weight
    model = make_model("slist", LOG, l2=5.0, half_life=half_life, reach=reach, whole=whole)
    found = model.item_to_item().numpy()
    options = (5.0, half_life, reach, whole, weight)
    np.testing.assert_allclose(found, expected(LOG, *options), rtol=1e-3, atol=1e-5)
    for near in 9, 3:
        model = make_model("sparse-slist", LOG, l2=5.0, half_life=half_life, reach=reach, whole=whole, neighbours=near)
        np.testing.assert_allclose(model.item_to_item().numpy(), restricted(near, LOG, *options), rtol=1e-3, atol=1e-5)


def test_whole_histories_alone_are_ease():
    LOG.columns.pop("weight", None)
    found = make_model("slist", LOG, l2=5.0, whole=1.0).item_to_item().numpy()
    np.testing.assert_allclose(found, make_model("ease", LOG, l2=5.0).item_to_item().numpy(), rtol=1e-4, atol=1e-6)


def test_where_items_are_many_sums_are_sparse_and_weights_alike(monkeypatch):
    LOG.columns.pop("weight", None)
    for name in "slist", "sparse-slist":
        few = make_model(name, LOG, whole=0.4).item_to_item().numpy()
        monkeypatch.setattr(sequences, "MOST_DENSE", 5)
        np.testing.assert_allclose(make_model(name, LOG, whole=0.4).item_to_item().numpy(), few, rtol=1e-4, atol=1e-6)
        monkeypatch.undo()


def test_a_catalogue_too_large_for_slist_is_not_for_its_sparse_sibling(tmp_path):
    large = Shape(500_000, 200_000, 2_000_000, 20_000_000, 10**8)
    tried = {family.name for family in plan_search(large, 2_000, has_times=True, in_order=True).families}
    assert "sparse-slist" in tried
    assert "slist" not in tried
    made = fit(walk(), "sparse-slist", options={"model.neighbours": 3}, device="cpu", out=tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert again.recommend(k=5).equals(made.recommend(k=5))
    assert np.count_nonzero(again.method.target.item_to_item().numpy(), axis=0).max() == 3
