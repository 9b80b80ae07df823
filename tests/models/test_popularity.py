"""Popularity: counts, the same for all users. Quality: the share of an item's interactions that are real."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from accord.models.consensus import vote
from accord.models.popularity import Quality
from helpers import dense, make_model, plan_small, random_csr, train_small

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)
LOG = random_csr(12, 6, 0.5)


def test_popularity_counts_interactions():
    model = make_model("popularity", TRAIN)
    scores = model.score_all(torch.tensor([4, 4, 0]))
    assert scores.shape == (1, 3, ITEMS)
    np.testing.assert_array_equal(scores[0, 1].numpy(), dense(TRAIN).sum(0))
    np.testing.assert_array_equal(model.fold_in(torch.tensor([2]))[0].numpy(), dense(TRAIN).sum(0))


def test_it_is_the_centred_logit_of_the_share_drawn_to_that_of_all():
    p_real = np.random.default_rng(0).random(len(LOG.items))
    made = make_model("quality", replace(LOG, columns={"p_real": p_real}))
    expected = []
    for item in range(6):
        own = p_real[LOG.items == item]
        share = (own.sum() + 5 * p_real.mean()) / (len(own) + 5)
        expected.append(np.log(share / (1 - share)))
    expected = np.array(expected) - np.mean(expected)
    np.testing.assert_allclose(made.score_all(torch.tensor([0, 3]))[0].numpy(), [expected, expected], atol=1e-6)
    np.testing.assert_allclose(made.fold_in(torch.tensor([1]))[0].numpy(), expected, atol=1e-6)


def test_where_nothing_is_known_it_says_nothing():
    assert not make_model("quality", LOG).score_all(torch.arange(3)).any()


def test_users_without_history_get_what_most_took_really():
    p_real = np.random.default_rng(0).random(len(LOG.items))
    made = make_model("quality", replace(LOG, columns={"p_real": p_real}))
    np.testing.assert_allclose(made.for_newcomers().numpy(), np.bincount(LOG.items, p_real), rtol=1e-6)
    assert make_model("quality", LOG).for_newcomers() is None, "popularity, where nothing is known"
    assert make_model("ease", LOG).for_newcomers() is None


def test_its_vote_keeps_its_scale():
    method, _ = train_small("quality", "normal", (3,))
    method.target.value = torch.linspace(-0.1, 0.1, method.target.num_items)
    assert torch.equal(vote(method, torch.tensor([0]))[0], method.target.value)
    assert Quality.own_scale
    assert not plan_small("ease", "normal", (3,)).kind.learns
