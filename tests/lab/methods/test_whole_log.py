"""What is known of all training interactions at once, against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.data.csr import Csr
from accord_lab.methods import whole_log
from accord_lab.methods.whole_log import counts_for, of_each_user, positive_losses, standing
from method_cases import TRAIN, make


@pytest.mark.parametrize("at_once", [7, 2**18])
@pytest.mark.parametrize("model", ["mf", "cdae"])
def test_losses_are_those_of_the_target_as_it_recommends(model, at_once, monkeypatch):
    monkeypatch.setattr(whole_log, "PAIRS_AT_ONCE", at_once)
    method = make("normal", model=model)
    found = positive_losses(method, TRAIN)
    scores = method.eval().score_all(torch.arange(TRAIN.num_users)).detach().numpy()[:, TRAIN.users, TRAIN.items]
    np.testing.assert_allclose(found, np.log1p(np.exp(-scores)), rtol=1e-5)


def test_an_interaction_counts_for_its_weight():
    assert counts_for(TRAIN).tolist() == [1.0] * len(TRAIN.items)
    weights = np.arange(len(TRAIN.items), dtype=np.float32)
    assert counts_for(replace(TRAIN, columns={"weight": weights})).tolist() == weights.tolist()


def test_where_users_stand():
    """Means 2, 1, 4 of users 0, 1 and 3; user 2 has nothing, and user 4 nothing that counts."""
    losses, rows = np.array([3.0, 1.0, 1.0, 9.0, 4.0, 7.0]), np.array([0, 0, 1, 1, 3, 4])
    counts = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 0.0])
    assert standing(losses, rows, 5, counts).tolist() == [0.5, 0.0, 0.0, 1.0, 0.0]
    assert standing(np.array([3.0]), np.array([0]), 1, np.ones(1)).tolist() == [0.0]
    assert standing(np.ones(3), np.arange(3), 3, np.ones(3)).tolist() == [0.0, 0.5, 1.0], "equal ones in their order"


@pytest.mark.parametrize(("ufunc", "plain"), [(np.maximum, max), (np.minimum, min), (np.add, sum)])
def test_a_reduction_over_the_interactions_of_each_user(ufunc, plain):
    train = Csr.of(np.array([0, 0, 2, 2, 2, 5]), np.array([1, 2, 0, 1, 3, 2]), 7, 4)  # users without any between them
    values = np.array([3.0, -1.0, 2.0, 5.0, 4.0, 7.0])
    expected = [plain(values[train.users == user].tolist()) for user in train.users]
    assert of_each_user(values, train.ptr, ufunc).tolist() == expected
    assert of_each_user(np.zeros(0), np.zeros(4, dtype=np.int64), ufunc).tolist() == []
