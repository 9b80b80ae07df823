"""What every run says about given pairs."""

from __future__ import annotations

import numpy as np

import accord
from accord_lab.pair_scores import pair_scores


def test_pairs_in_parts_are_as_at_once(data, monkeypatch):
    users, items = data.rows(data.train)
    trained = accord.fit(data, "mf", "normal", seeds=2, epochs=1, device="cpu")
    popular = accord.fit(data, "popularity", device="cpu")
    both = [pair_scores(one, users, items) for one in (trained, popular)]
    assert both[0].shape == (2, len(users))
    assert ((both[0] > 0) & (both[0] < 1)).all()
    assert np.array_equal(both[1][0], popular.train.popularity()[items])
    monkeypatch.setattr("accord_lab.pair_scores.PAIRS_AT_ONCE", 100)
    for trained_one, whole in zip((trained, popular), both, strict=True):
        assert np.array_equal(pair_scores(trained_one, users, items), whole)
