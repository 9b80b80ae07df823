"""Folds: every interaction is held out once, a user's as evenly as they can be, and the validation is apart."""

from __future__ import annotations

import numpy as np

from accord.data.folds import ENOUGH_TO_STOP_BY, cut
from helpers import random_csr

LOG = random_csr(40, 30, 0.4)


def folds_of(number: int, seed: int = 0):
    return list(cut(LOG.users, LOG.items, LOG.num_users, LOG.num_items, number, seed))


def test_every_interaction_is_held_out_once():
    for number in (2, 5):
        assert (np.sum([fold.held for fold in folds_of(number)], axis=0) == 1).all()


def test_the_interactions_of_a_user_are_dealt_out_evenly():
    for user in range(LOG.num_users):
        sizes = [int(fold.held[LOG.users == user].sum()) for fold in folds_of(4)]
        assert max(sizes) - min(sizes) <= 1


def test_training_stops_by_what_is_neither_held_out_nor_trained_on():
    for fold in folds_of(3):
        assert fold.valid.any()
        assert not (fold.valid & fold.held).any()
        assert not (fold.valid & fold.trained(learns=True)).any()
        assert np.array_equal(fold.trained(learns=False), ~fold.held)
        assert (LOG.counts[LOG.users[fold.valid]] >= ENOUGH_TO_STOP_BY).all()


def test_the_same_seed_gives_the_same_folds():
    one, same, other = (folds_of(3, seed) for seed in (1, 1, 2))
    for a, b in zip(one, same, strict=True):
        assert np.array_equal(a.held, b.held)
        assert np.array_equal(a.valid, b.valid)
    assert any(not np.array_equal(a.held, b.held) for a, b in zip(one, other, strict=True))
