"""UDT against its formula, user by user."""

from __future__ import annotations

import numpy as np
import pytest

from method_cases import TRAIN, found, log_batch, make, means, probability, split
from oracles import weighted

OPTIONS = [{}, {"t_clean": 1.0, "t_noisy": 0.1, "c_noisy": 0.25}, {"t_clean": 5.0, "t_noisy": 5.0, "c_noisy": 1.0}]
DEFAULTS = {"t_clean": 2.0, "t_noisy": 0.5, "c_noisy": 0.5}


def expected_weights(train, losses, given):
    """Of every interaction, by loops over users."""
    counts = train.columns.get("weight", np.ones(len(train.items)))
    users = [user for user in range(train.num_users) if train.counts[user]]
    own = {user: np.flatnonzero(train.users == user) for user in users}
    mean = {user: np.average(losses[own[user]], weights=counts[own[user]]) for user in users}
    weights = np.zeros(len(train.items))
    for place, user in enumerate(sorted(users, key=mean.get)):
        stands = place / (len(users) - 1)
        t = given["t_clean"] + stands * (given["t_noisy"] - given["t_clean"])
        c = 1 + stands * (given["c_noisy"] - 1)
        e = np.exp(-losses[own[user]] / t)
        weights[own[user]] = c * counts[own[user]].sum() * e / (counts[own[user]] * e).sum()
    return weights


@pytest.mark.parametrize("train", [TRAIN, weighted(TRAIN)], ids=["plain", "weights"])
def test_weights_and_loss(train):
    method = make("udt", OPTIONS, train=train)
    batch = log_batch(train, weighted="weight" in train.columns)
    positive, negative = split(probability(method.target, batch), len(train.items))
    positive, negative = -np.log(positive), -np.log(1 - negative)
    order, counts = batch.column("place").numpy(), train.columns.get("weight", np.ones(len(train.items)))
    np.testing.assert_allclose(found(method, batch), means(positive * counts[order], negative), rtol=1e-6)
    method.begin_epoch(0)
    assert (method.weight == 1).all(), "the first epoch is plain"
    method.begin_epoch(1)
    expected = []
    for run, given in enumerate(OPTIONS):
        losses = np.empty(len(train.items))
        losses[order[run]] = positive[run]
        weights = expected_weights(train, losses, DEFAULTS | given)
        np.testing.assert_allclose(method.weight[run].numpy(), weights, rtol=1e-6)
        expected.append((positive[run] * (weights * counts)[order[run]]).mean() + negative[run].mean())
    np.testing.assert_allclose(found(method, batch), expected, rtol=1e-6)


def test_an_even_temperature_only_shares_out():
    """With c = 1 the weights of a user add up to the interactions of the user."""
    method = make("udt", [{"c_noisy": 1.0, "warmup": 0}] * 3)
    method.begin_epoch(0)
    for weights in method.weight.numpy():
        np.testing.assert_allclose(np.bincount(TRAIN.users, weights, TRAIN.num_users), TRAIN.counts, rtol=1e-9)
        assert weights.std() > 0.05
