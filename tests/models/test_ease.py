"""EASE against the ridge regression of each item."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.errors import InputError
from accord.models.ease import EASE
from helpers import dense, make_model, random_csr

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)


@pytest.mark.parametrize("l2", [0.5, 20.0])
def test_ease_is_a_ridge_regression_of_each_item_on_the_others(l2):
    x = dense(TRAIN)
    expected = np.zeros((ITEMS, ITEMS))
    for item in range(ITEMS):
        others = np.delete(np.arange(ITEMS), item)  # its own weight is held at zero
        gram = x[:, others].T @ x[:, others] + l2 * np.eye(ITEMS - 1)
        expected[others, item] = np.linalg.solve(gram, x[:, others].T @ x[:, item])
    model = make_model("ease", TRAIN, l2=l2)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    users = torch.tensor([3, 0, 29])
    np.testing.assert_allclose(model.score_all(users)[0].numpy(), (x @ expected)[users], atol=1e-5)
    history = torch.tensor([1, 5, 6])
    np.testing.assert_allclose(model.fold_in(history)[0].numpy(), expected[[1, 5, 6]].sum(0), atol=1e-5)


def test_ease_refuses_more_items_than_it_can_invert(monkeypatch):
    monkeypatch.setattr(EASE, "most_items", ITEMS - 1)
    with pytest.raises(InputError, match="too many"):
        make_model("ease", TRAIN)
