"""EARD against its formula, interaction by interaction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import one_run, train_small
from method_cases import TRAIN, found, log_batch, make, probability, split
from oracles import weighted

OPTIONS = [{}, {"alpha": 0.0, "beta": 1.0}, {"alpha": 1.0, "beta": 0.25}]
DEFAULTS = {"alpha": 0.5, "beta": 0.5}


def reputations(rows, losses, counts, least):
    """1 for who has the smallest mean loss, `least` for who has the largest."""
    there = sorted(set(rows.tolist()), key=lambda row: np.average(losses[rows == row], weights=counts[rows == row]))
    return {row: 1 + place / (len(there) - 1) * (least - 1) for place, row in enumerate(there)}


def expected_weights(train, losses, given):
    counts = train.columns.get("weight", np.ones(len(train.items)))
    user = reputations(train.users, losses, counts, given["alpha"])
    item = reputations(train.items, losses, counts, given["beta"])
    up_to = [counts[losses <= loss].sum() / counts.sum() for loss in losses]
    pairs = zip(up_to, train.users.tolist(), train.items.tolist(), strict=True)
    return np.array([(1 - share) * user[u] * item[i] for share, u, i in pairs])


@pytest.mark.parametrize("train", [TRAIN, weighted(TRAIN)], ids=["plain", "weights"])
def test_weights_and_loss(train):
    method = make("eard", [given | {"warmup": 1} for given in OPTIONS], train=train)
    batch = log_batch(train, weighted="weight" in train.columns)
    method.begin_epoch(0)
    assert (method.weight == 1).all(), "the warm-up is plain"
    method.begin_epoch(1)
    positive, negative = split(probability(method.target, batch), len(train.items))
    positive, negative = -np.log(positive), -np.log(1 - negative)
    order, counts = batch.column("place").numpy(), train.columns.get("weight", np.ones(len(train.items)))
    expected = []
    for run, given in enumerate(OPTIONS):
        losses = np.empty(len(train.items))
        losses[order[run]] = positive[run]
        weights = expected_weights(train, losses, DEFAULTS | given)
        np.testing.assert_allclose(method.weight[run].numpy(), weights, rtol=1e-6, atol=1e-12)
        expected.append((positive[run] * (weights * counts)[order[run]]).mean() + negative[run].mean())
    np.testing.assert_allclose(found(method, batch), expected, rtol=1e-6)
    assert (method.weight.min(1).values < 1e-9).all(), "the largest loss of all counts for nothing"


def test_a_run_of_a_stack_equals_the_run_alone_after_the_warm_up():
    stack, _ = train_small("gmf", "eard", (3, 5), epochs=3, method__warmup=1)
    alone, _ = train_small("gmf", "eard", (5,), epochs=3, method__warmup=1)
    plain, _ = train_small("gmf", "eard", (5,), epochs=3, method__warmup=3)
    for name, tensor in one_run(alone.state_dict(), 0, 1).items():
        torch.testing.assert_close(one_run(stack.state_dict(), 1, 2)[name], tensor, rtol=1e-4, atol=5e-5)
    assert not torch.equal(plain.target.user.weight, alone.target.user.weight), "the weights matter"
