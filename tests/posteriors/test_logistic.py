"""The regression against its own optimum and against probabilities that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from accord.evaluation import noise
from accord.posteriors import logistic
from accord.posteriors.logistic import (
    OFF,
    START_PENALTY,
    START_WEIGHT,
    Pairs,
    best_penalties,
    calibrated,
    fit,
    held_out,
    spread,
)

USERS, ITEMS, GROUPS = 60, 40, np.array([0, 0, 1])


def drawn(size, seed=0, soft=False):
    """Pairs whose labels are drawn with known probabilities, and these."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((size, 4))
    users, items = rng.integers(USERS, size=size), rng.integers(ITEMS, size=size)
    world = np.random.default_rng(99)
    chance = expit(
        0.8
        + z @ [0.5, 0.7, 0.0, -0.4]
        + 0.8 * world.standard_normal(USERS)[users]
        + 0.6 * world.standard_normal(ITEMS)[items]
    )
    labels = chance if soft else (rng.random(size) < chance).astype(float)
    return Pairs(z, users, items, labels), chance


def test_the_fit_is_where_the_slope_vanishes():
    pairs, _ = drawn(800)
    penalties = (2.0, 3.0, 1.5, 2.5, OFF, OFF)
    model = fit(pairs, GROUPS, penalties, USERS, ITEMS)
    rest = expit(model.logits(pairs.features, pairs.users, pairs.items)) - pairs.labels
    own = np.array([START_PENALTY, 2.0, 2.0, 3.0])
    slope = pairs.features.T @ rest + own * (model.weights - [START_WEIGHT, 0, 0, 0])
    np.testing.assert_allclose(slope, 0, atol=0.15)
    np.testing.assert_allclose(rest.sum(), 0, atol=0.15)
    np.testing.assert_allclose(np.bincount(pairs.users, rest, USERS) + 1.5 * model.user[:, 0], 0, atol=0.15)
    np.testing.assert_allclose(np.bincount(pairs.items, rest, ITEMS) + 2.5 * model.item[:, 0], 0, atol=0.15)


def test_intervals_hold_the_known_probability_19_times_of_20():
    pairs, _ = drawn(3000)
    fold = np.arange(len(pairs)) % 5
    penalties, _ = best_penalties(pairs, GROUPS, [(1.0, fold)], (USERS, ITEMS), start=(10.0, 10.0, 3.0, 3.0, OFF, OFF))
    model = fit(pairs, GROUPS, penalties, USERS, ITEMS)
    others, chance = drawn(4000, seed=1)
    middle = model.logits(others.features, others.users, others.items)
    half = 1.96 * np.sqrt(
        spread(model, pairs, GROUPS, penalties).variances(others.features, others.users, others.items)
    )
    inside = np.mean((expit(middle - half) <= chance) & (chance <= expit(middle + half)))
    assert 0.92 <= inside <= 0.99


def test_an_interval_does_not_depend_on_the_order_of_the_labels():
    pairs, _ = drawn(200)
    penalties = (2.0, 3.0, 1.5, 2.5, OFF, OFF)
    model, turned = fit(pairs, GROUPS, penalties, USERS, ITEMS), pairs.take(np.arange(200)[::-1])
    of = pairs.features, pairs.users, pairs.items
    one, other = (spread(model, each, GROUPS, penalties).variances(*of) for each in (pairs, turned))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def searched(labels):
    """The penalties that are found for 150 pairs with labels: their own, or any."""
    pairs, _ = drawn(150)
    pairs = Pairs(pairs.features, pairs.users, pairs.items, pairs.labels if labels is None else labels)
    start = (10.0, 10.0, 3.0, 3.0, OFF, OFF)
    return best_penalties(pairs, GROUPS, [(1.0, np.arange(150) % 5)], (USERS, ITEMS), start)[0]


ANY = [np.random.default_rng(number).integers(2, size=150).astype(float) for number in range(6)]


def test_a_search_starts_from_stronger_penalties_where_labels_tell_little(monkeypatch):
    monkeypatch.setattr(logistic, "STEPS", ())
    assert searched(None) == (10.0, 10.0, 3.0, 3.0, OFF, OFF)
    found = [searched(labels) for labels in ANY]
    assert sum(own == (100.0, 100.0, 30.0, 30.0, OFF, OFF) for own in found) >= 4


def test_chance_moves_penalties_less_than_it_would(monkeypatch):
    def moves():
        return sum(np.abs(np.log(np.array(searched(labels)[:4]) / (10, 10, 3, 3))).sum() for labels in ANY)

    sure = moves()
    monkeypatch.setattr(logistic, "SURE", 0.0)
    assert sure < 0.9 * moves()


# two factors of users, two of items
OF_TASTES = np.array([0, 1, 1, 2, 2])


def tasteful(size, strength, seed=0):
    """Pairs of users who weigh the factors of items each in a way of their own, and what is true of them."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(98)
    sides = world.standard_normal((USERS, 2)), world.standard_normal((ITEMS, 2))
    users, items = rng.integers(USERS, size=size), rng.integers(ITEMS, size=size)
    z = np.column_stack([rng.standard_normal((size, 2)), sides[0][users], sides[1][items]])
    own = strength * world.standard_normal((USERS, 2))
    chance = expit(0.5 + 0.5 * z[:, 0] + (own[users] * z[:, 4:]).sum(1))
    return Pairs(z, users, items, (rng.random(size) < chance).astype(float)), chance


def test_tastes_are_learned_where_there_are_any_and_labels_enough():
    start = (30.0, 100.0, 100.0, 3.0, 3.0, OFF, OFF)

    def searched(size, strength):
        pairs, _ = tasteful(size, strength)
        fold = np.arange(size) % 5
        return best_penalties(pairs, OF_TASTES, [(1.0, fold)], (USERS, ITEMS), start)[0]

    of_users, of_items = searched(3000, 1.0)[-2:]
    assert of_users < OFF == of_items, "items have none"
    assert searched(3000, 0.0)[-2:] == (OFF, OFF)
    assert searched(150, 0.0)[-2:] == (OFF, OFF)


def test_a_taste_is_what_its_labels_say_and_its_interval_holds_it():
    (pairs, _), (others, chance) = tasteful(6000, 1.0), tasteful(3000, 1.0, seed=1)
    with_tastes, without = (30.0, 100.0, 100.0, 3.0, 3.0, 1.0, OFF), (30.0, 100.0, 100.0, 3.0, 3.0, OFF, OFF)
    models = {own: fit(pairs, OF_TASTES, own, USERS, ITEMS) for own in (with_tastes, without)}
    rest = expit(models[with_tastes].logits(pairs.features, pairs.users, pairs.items)) - pairs.labels
    for place in (0, 1):  # where the slope vanishes
        slope = np.bincount(pairs.users, rest * pairs.features[:, 4 + place], USERS)
        np.testing.assert_allclose(slope + models[with_tastes].user[:, 1 + place], 0, atol=0.3)
    assert models[with_tastes].user.shape == (USERS, 3)
    assert models[without].user.shape == (USERS, 1)
    away = {
        own: np.abs(expit(model.logits(others.features, others.users, others.items)) - chance).mean()
        for own, model in models.items()
    }
    assert away[with_tastes] < away[without] / 2
    found = spread(models[with_tastes], pairs, OF_TASTES, with_tastes)
    middle = models[with_tastes].logits(others.features, others.users, others.items)
    half = 1.96 * np.sqrt(found.variances(others.features, others.users, others.items))
    assert 0.9 <= np.mean((expit(middle - half) <= chance) & (chance <= expit(middle + half))) <= 0.995


def test_a_fit_may_start_from_one_with_other_tastes():
    pairs, _ = tasteful(2000, 1.0)
    off, on = (30.0, 100.0, 100.0, 3.0, 3.0, OFF, OFF), (30.0, 100.0, 100.0, 3.0, 3.0, 2.0, 50.0)
    for first, second in ((off, on), (on, off)):
        near = fit(pairs, OF_TASTES, first, USERS, ITEMS)
        alone, after = (fit(pairs, OF_TASTES, second, USERS, ITEMS, start) for start in (None, near))
        one, other = (model.logits(pairs.features, pairs.users, pairs.items) for model in (alone, after))
        assert np.abs(one - other).mean() < 0.01


def test_held_out_logits_know_nothing_of_their_own_labels():
    pairs, _ = drawn(500)
    fold = np.arange(500) % 5
    flipped = Pairs(pairs.features, pairs.users, pairs.items, np.where(fold == 2, 1 - pairs.labels, pairs.labels))
    fits = {}
    one, other = (
        held_out(which, GROUPS, (5.0, 5.0, 3.0, 3.0, OFF, OFF), fold, (USERS, ITEMS), given)
        for which, given in ((pairs, fits), (flipped, None))
    )
    assert sorted(fits) == [0, 1, 2, 3, 4], "the next ones start from these, and take less time"
    assert np.array_equal(one[fold == 2], other[fold == 2])
    assert not np.array_equal(one[fold == 1], other[fold == 1])


def test_labels_may_lie_between():
    soft, chance = drawn(3000, soft=True)
    model = fit(soft, GROUPS, (1.0, 1.0, 1.0, 1.0, OFF, OFF), USERS, ITEMS)
    found = expit(model.logits(soft.features, soft.users, soft.items))
    assert np.abs(found - chance).mean() < 0.02


def test_calibration_brings_back_what_was_bent():
    rng = np.random.default_rng(4)
    logits = rng.standard_normal(20_000)
    labels = (rng.random(20_000) < expit(logits)).astype(float)
    shift, slope = calibrated(2 * logits - 1, labels)
    assert (shift, slope) == pytest.approx((0.5, 0.5), abs=0.05)
    assert noise.calibration(expit(shift + slope * (2 * logits - 1)), labels > 0.5)["ece"] < 0.02
