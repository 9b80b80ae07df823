"""User-kNN against a dense computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import make_model
from oracles import PLAIN, dense, each_case, neighbour_scores, scores_of


@each_case
@pytest.mark.parametrize(("k", "shrink"), [(1, 0.0), (6, 0.0), (6, 3.0), (1000, 0.0)])
def test_against_a_dense_computation(train, k, shrink):
    model, x = make_model("user-knn", train, k=k, shrink=shrink), dense(train)
    expected = neighbour_scores(x, x, k, shrink, np.arange(len(x)))
    np.testing.assert_allclose(scores_of(model), expected, rtol=2e-5, atol=1e-6)
    new = np.zeros((1, train.num_items))
    new[0, [1, 5, 6]] = 1
    found = model.fold_in(torch.tensor([1, 5, 6])).numpy()
    np.testing.assert_allclose(found, neighbour_scores(new, x, k, shrink), rtol=2e-5, atol=1e-6)


def test_what_is_kept_is_one_number_a_user():
    model = make_model("user-knn", PLAIN)
    assert {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()} == {"norm": (30,)}
