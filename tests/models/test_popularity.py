"""Popularity: counts, the same for all users."""

from __future__ import annotations

import numpy as np
import torch

from helpers import dense, make_model, random_csr

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)


def test_popularity_counts_interactions():
    model = make_model("popularity", TRAIN)
    scores = model.score_all(torch.tensor([4, 4, 0]))
    assert scores.shape == (1, 3, ITEMS)
    np.testing.assert_array_equal(scores[0, 1].numpy(), dense(TRAIN).sum(0))
    np.testing.assert_array_equal(model.fold_in(torch.tensor([2]))[0].numpy(), dense(TRAIN).sum(0))
