"""PLD: what is drawn, how often, and the loss of it."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import chisquare

from method_cases import TRAIN, found, log_batch, make, means, probability, split
from oracles import weighted


def test_one_candidate_is_drawn_by_its_loss():
    """One user many times: how often each item comes, against the expectation over all pairs of candidates."""
    user, size, temperature = int(TRAIN.counts.argmax()), 40_000, 0.5
    method = make("pld", [{"k": 2, "temperature": temperature}])
    users = torch.full((1, 2 * size), user)
    batch = log_batch(runs=1)._replace(users=users, items=torch.zeros_like(users), num_positives=size)
    drawn = method._chosen(batch)[0].numpy()
    start, end = TRAIN.ptr[user], TRAIN.ptr[user + 1]
    own = TRAIN.items[start:end]
    everyone = batch._replace(
        users=torch.full((1, len(own)), user), items=torch.from_numpy(own)[None], num_positives=len(own)
    )
    believed = np.exp(np.log(probability(method.target, everyone)[0]) / temperature)  # exp(-loss / T)
    chance = (believed[:, None] / (believed[:, None] + believed[None])).mean(1) * 2 / len(own)
    np.testing.assert_allclose(chance.sum(), 1)
    counts = np.bincount(drawn - start, minlength=end - start)
    assert chisquare(counts, chance * size).pvalue > 1e-3
    assert chance.max() / chance.min() > 1.3, "the chances differ"


def test_loss_of_what_was_drawn_with_its_own_weight():
    train = weighted(TRAIN)
    method = make("pld", [{}, {"temperature": 0.1}, {"temperature": 9.0}], train=train)
    batch = log_batch(train, weighted=True)
    states = [stream.get_state() for stream in method.draws.streams]
    chosen = method._chosen(batch)
    for stream, state in zip(method.draws.streams, states, strict=True):
        stream.set_state(state)
    size = batch.num_positives
    assert (torch.from_numpy(train.users)[chosen] == batch.users[:, :size]).all(), "of the same user"
    assert (chosen != batch.column("place")).any()
    items = torch.cat([torch.from_numpy(train.items)[chosen], batch.items[:, size:]], 1)
    positive, negative = split(probability(method.target, batch._replace(items=items)), size)
    expected = means(-np.log(positive) * train.columns["weight"][chosen.numpy()], -np.log(1 - negative))
    np.testing.assert_allclose(found(method, batch), expected, rtol=1e-6)


def test_one_candidate_is_uniform_over_the_user():
    method, batch = make("pld", [{"k": 1}] * 3), log_batch()
    drawn = torch.stack([method._chosen(batch) for _ in range(300)]).numpy()
    user = int(TRAIN.counts.argmax())
    own = drawn[:, batch.users[:, : batch.num_positives].numpy() == user] - TRAIN.ptr[user]
    assert chisquare(np.bincount(own.ravel(), minlength=TRAIN.counts[user])).pvalue > 1e-3
