"""SLIST, against the regression that it solves, row by row."""

import numpy as np
import pytest

from helpers import dense, histories, make_model, timed_csr

LOG = timed_csr(40, 10, 0.5)


def expected(train, l2, half_life, reach, whole, weight):
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
    inverse = np.linalg.inv(gram)
    product = inverse @ (whole * x.T @ x + (1 - whole) * scale * z.T @ y)
    result = product - inverse * (np.diag(product) / np.diag(inverse))
    np.fill_diagonal(result, 0)
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
    np.testing.assert_allclose(found, expected(LOG, 5.0, half_life, reach, whole, weight), rtol=1e-3, atol=1e-5)


def test_whole_histories_alone_are_ease():
    LOG.columns.pop("weight", None)
    found = make_model("slist", LOG, l2=5.0, whole=1.0).item_to_item().numpy()
    np.testing.assert_allclose(found, make_model("ease", LOG, l2=5.0).item_to_item().numpy(), rtol=1e-4, atol=1e-6)
