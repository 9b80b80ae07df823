"""Ways to draw some of the labels."""

from __future__ import annotations

import numpy as np

from accord_lab.labels.draws import DESCRIPTIONS, drawn_labels, with_train_labels, without_labels


def test_labels_are_drawn_by_pair_and_by_user(data):
    truth = data.train.column("label")
    for draw in range(2):
        some = drawn_labels(data, 0.1, "random", draw)
        kept = ~np.isnan(some)
        assert 0.07 < kept.mean() < 0.13
        assert (some[kept] == truth[kept]).all()
    assert not np.array_equal(drawn_labels(data, 0.1, "random", 0), some, equal_nan=True)
    users = data.rows(data.train)[0]
    whole = ~np.isnan(drawn_labels(data, 0.1, "users", 0))
    assert len(np.unique(users[whole])) <= 20
    assert not set(users[whole]) & set(users[~whole]), "all labels of a user or none"


def test_labels_are_drawn_in_hard_ways_too(data):
    truth, items = data.train.column("label"), data.rows(data.train)[1]
    drawn = {by: drawn_labels(data, 0.1, by, 0) for by in DESCRIPTIONS}
    kept = {by: ~np.isnan(some) for by, some in drawn.items()}
    popular = np.argsort(-np.bincount(items, minlength=len(data.items)))[: round(0.1 * len(data.items))]
    assert len(np.unique(items[kept["popular"]])) <= len(popular)
    assert np.bincount(items)[items[kept["popular"]]].min() >= np.bincount(items)[popular].min()
    assert 0.08 < kept["popular"].mean() < 0.12
    assert 0.8 < drawn["one-class"][kept["one-class"]].mean() < 0.98
    assert kept["few"].sum() == 20
    assert np.array_equal(kept["wrong"], kept["random"])
    wrong = drawn["wrong"][kept["wrong"]] != truth[kept["wrong"]]
    assert 0.05 < wrong.mean() < 0.16


def test_of_labels_that_only_some_have_a_share_is_drawn(data):
    given = drawn_labels(data, 0.4, "random", 7)
    some, labelled, real = with_train_labels(data, given), ~np.isnan(given), (given > 0.5).sum()
    wanted = dict.fromkeys(("random", "popular", "wrong"), 0.2 * labelled.sum())
    for by, number in (wanted | {"few": 20, "one-class": 0.2 * min(labelled.sum(), real / 0.9)}).items():
        drawn = ~np.isnan(drawn_labels(some, 0.2, by, 0))
        assert not (drawn & ~labelled).any()
        assert abs(drawn.sum() - number) <= 3 * np.sqrt(number) * (by != "few"), by
    users = data.rows(data.train)[0]
    assert len(np.unique(users[~np.isnan(drawn_labels(data, 0.2, "users", 0))])) == 20, "a fifth of 100"


def test_labels_are_put_on_and_taken_off(data):
    label = drawn_labels(data, 0.1, "random", 0)
    assert np.array_equal(with_train_labels(data, label).train.column("label"), label, equal_nan=True)
    bare = without_labels(data)
    assert "label" not in bare.train.names + bare.valid.names
    assert np.array_equal(bare.train.users, data.train.users)
