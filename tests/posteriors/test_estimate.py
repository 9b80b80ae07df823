"""p_real where the truth is known: with few labels, wrong ones, biased ones and none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accord.data.simulate import simulate
from accord.evaluation import noise
from accord.posteriors import estimate as module
from accord.posteriors.estimate import estimate, next_labels, uncertainty
from accord.posteriors.logistic import PENALTIES

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def log():
    """The training interactions of a simulated log, whether each is real, and its features, made once."""
    data = simulate(users=300, items=120, interactions=9000, seed=5, liked=0.4).dataset
    train = data.training_csr(("value",))
    return train, train.columns["value"] == 1


@pytest.fixture(scope="module")
def features(log):
    return module.Features.of(module.interaction_matrix(log[0]))


@pytest.fixture(autouse=True)
def _features_once(features, monkeypatch):
    monkeypatch.setattr(module.Features, "of", lambda *_: features)


def some(real, share, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(real)) < share, real.astype(float), np.nan)


def auc_of_rest(found, real, values=None):
    rest = np.isnan(found.label)
    return noise.auc((found.p_real if values is None else values)[rest], real[rest])


def test_a_few_labels_make_it_sharp_and_calibrated(log):
    train, real = log
    found = estimate(train, some(real, 0.1))
    assert found.used
    assert auc_of_rest(found, real) > auc_of_rest(found, real, found.label_free) + 0.05
    rest = np.isnan(found.label)
    assert noise.calibration(found.p_real[rest], real[rest])["ece"] < 0.04
    assert (found.low <= found.p_real).all()
    assert (found.p_real <= found.high).all()
    assert "labels tell real from noise" in found.why
    labelled = ~rest
    share, unsure = real[labelled].mean(), 98 / np.sqrt(labelled.sum())
    assert f"The share of real ones among labels is {share:.0%} ± {unsure:.0f}." in found.why
    assert np.array_equal(found.believed[labelled], real[labelled])
    assert np.array_equal(found.believed[rest], found.p_real[rest])
    figures, own, told = found.figures, found.p_real[labelled], real[labelled]
    assert (figures["labels"], figures["held_out_by"]) == (labelled.sum(), "pair")
    assert figures["real"] == share
    assert len(figures["penalties"]) == len(PENALTIES)
    assert figures["auc"] == pytest.approx(noise.auc(own, told), abs=0.005), "by what the other labels say"
    assert figures["label_free_auc"] == pytest.approx(noise.auc(found.label_free[labelled], told), abs=0.02)
    assert figures["log_loss"] == pytest.approx(-np.log(np.where(told, own, 1 - own)).mean(), abs=0.01)
    assert figures["ece"] == pytest.approx(noise.calibration(own, told)["ece"], abs=0.01)
    error = (figures["label_free_log_loss"] - figures["log_loss"]) / figures["standard_errors"]
    assert 0 < error < 1 / np.sqrt(labelled.sum()), "of a mean over so many labels"


@pytest.mark.parametrize("drawn", ["20 labels", "1% of the labels", "all labels of 4% of the users"])
def test_19_of_20_intervals_of_the_share_of_real_ones_hold_it(drawn):
    """Users differ in how much of what they do is real, and in how much they do."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(500), rng.geometric(0.03, 500))
    real = (rng.random(len(user)) < rng.beta(1, 1.5, 500)[user]).astype(float)
    holds = np.zeros((2, 400), dtype=bool)
    for draw in range(holds.shape[1]):
        if drawn == "20 labels":
            rows = rng.permutation(len(user))[:20]
        elif drawn == "1% of the labels":
            rows = np.flatnonzero(rng.random(len(user)) < 0.01)
        else:
            rows = np.flatnonzero(np.isin(user, rng.permutation(500)[:20]))
        alone = np.arange(len(rows))
        for way, group in enumerate((user[rows] if "users" in drawn else alone, alone)):
            share, half = module.share_of_real(real[rows], group)
            holds[way, draw] = abs(share - real.mean()) <= half
    assert holds[0].mean() > 0.94
    if "users" in drawn:
        assert holds[1].mean() < 0.8, "as if they had been drawn one by one"


@pytest.mark.usefixtures("few_penalties")
def test_19_of_20_intervals_hold_what_all_labels_say(log):
    train, real = log
    found, told = estimate(train, some(real, 0.1, seed=1)), estimate(train, real.astype(float))
    assert ((found.low <= told.p_real) & (told.p_real <= found.high)).mean() > 0.95
    assert (found.high - found.low).mean() < 0.75


@pytest.mark.usefixtures("few_penalties")
def test_the_share_of_real_ones_is_as_unsure_as_the_users_who_gave_labels_are_few(log):
    """Those who like most and least: what a user's labels say is one observation."""
    train, real = log
    order = np.argsort(np.bincount(train.users, real) / train.counts)
    known = np.isin(train.users, [*order[:20], *order[-20:]])
    found = estimate(train, np.where(known, real.astype(float), np.nan))
    _, half = module.share_of_real(real[known].astype(float), train.users[known])
    assert f"± {100 * half:.0f}." in found.why
    assert half > 1.5 * 0.98 / np.sqrt(known.sum()), "one by one"


@pytest.mark.usefixtures("few_penalties")
def test_labelled_pairs_are_judged_out_of_sample(log):
    """As sharp as the others, not sharper: a pair's own label is not behind its p_real."""
    train, real = log
    own, others = [], []
    for seed in range(3):
        found = estimate(train, some(real, 0.2, seed))
        labelled = ~np.isnan(found.label)
        own.append(noise.auc(found.p_real[labelled], real[labelled]))
        others.append(auc_of_rest(found, real))
    assert np.mean(own) < np.mean(others) + 0.03


@pytest.mark.usefixtures("few_penalties")
def test_the_same_bits_every_time(log):
    train, real = log
    one, other = (estimate(train, some(real, 0.05)) for _ in range(2))
    for name in ("p_real", "low", "high"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_without_labels_it_follows_from_the_log(log):
    train, _ = log
    found = estimate(train)
    assert not found.used
    assert np.array_equal(found.p_real, found.label_free)
    assert found.why.startswith("no interaction has a label")


@pytest.mark.parametrize("count", [1, 20, 99])
def test_too_few_labels_change_nothing(log, count):
    train, real = log
    label = np.full(len(real), np.nan)
    label[:count] = real[:count]
    found = estimate(train, label)
    assert not found.used
    assert np.array_equal(found.p_real, estimate(train).p_real)
    assert f"{count} labels" in found.why
    assert "too few" in found.why


def test_halves_are_of_the_class_that_is_not_real(log):
    train, real = log
    label = np.full(len(real), np.nan)
    label[:100] = np.where(np.arange(100) < 95, 1, 0.5)
    assert "100 labels, 5 of the rarer class, are too few" in estimate(train, label).why


def test_labels_of_too_few_users_change_nothing(log):
    train, real = log
    label = np.where(train.users < 10, real.astype(float), np.nan)
    found = estimate(train, label)
    assert not found.used
    assert np.array_equal(found.p_real, found.label_free)
    assert f"{(train.users < 10).sum()} labels of 10 users are too few to learn from" in found.why


@pytest.mark.usefixtures("few_penalties")
@pytest.mark.parametrize("value", [1.0, 0.7])
def test_labels_of_real_ones_alone_teach_the_order(log, value):
    train, real = log
    found = estimate(train, np.where(real & (np.random.default_rng(0).random(len(real)) < 0.3), value, np.nan))
    assert found.used
    assert auc_of_rest(found, real) > auc_of_rest(found, real, found.label_free) + 0.02
    assert (found.low <= found.p_real).all()
    assert (found.p_real <= found.high).all()
    assert found.high.max() <= 1
    labelled = ~np.isnan(found.label)
    assert (found.label[labelled] == value).all(), "unlabelled ones are noise for the regression alone"
    assert "The share of real ones is unknown" in found.why
    assert f"{labelled.sum():,} labels, all of real ones" in found.why


@pytest.mark.usefixtures("few_penalties")
def test_labels_of_real_ones_of_popular_items_alone_do_not_say_that_popular_items_are_real(log):
    train, real = log
    popular = np.isin(train.items, np.argsort(-train.popularity())[:12])
    found = estimate(train, np.where(real & popular & (np.random.default_rng(0).random(len(real)) < 0.5), 1.0, np.nan))
    assert auc_of_rest(found, real) > auc_of_rest(found, real, found.label_free) - 0.01


@pytest.mark.usefixtures("few_penalties")
def test_a_label_of_one_half_says_that_not_all_are_real(log):
    train, real = log
    label = np.where(real, 1.0, 0.5)
    label[np.random.default_rng(0).random(len(real)) < 0.7] = np.nan
    assert "only_real" not in estimate(train, label).figures


@pytest.mark.usefixtures("few_penalties")
def test_labels_of_real_ones_at_random_are_not_used(log):
    train, real = log
    found = estimate(train, np.where(np.random.default_rng(3).random(len(real)) < 0.3, 1.0, np.nan))
    assert not found.used
    assert np.array_equal(found.p_real, found.label_free)
    assert np.isnan(found.label).any()
    assert "all of real ones, do not set these apart" in found.why


def test_where_all_are_labelled_real_there_is_nothing_to_learn(log):
    train, real = log
    found = estimate(train, np.ones(len(real)))
    assert not found.used
    assert "all of real ones, with 0 interactions that have none, are too few" in found.why


@pytest.mark.usefixtures("few_penalties")
def test_labels_that_mean_nothing_are_not_used(log):
    train, real = log
    rng = np.random.default_rng(1)
    label = np.where(rng.random(len(real)) < 0.1, (rng.random(len(real)) < 0.7).astype(float), np.nan)
    found = estimate(train, label)
    assert not found.used
    assert "beyond chance" in found.why
    assert np.array_equal(found.p_real, found.label_free)


@pytest.mark.usefixtures("few_penalties")
@pytest.mark.parametrize("kind", ["users", "popular items", "mostly real", "wrong"])
def test_labels_that_are_not_a_fair_sample_do_not_harm(log, kind):
    train, real = log
    rng = np.random.default_rng(2)
    users, items = train.users, train.items
    label = real.astype(float)
    if kind == "users":
        known = rng.random(train.num_users)[users] < 0.1
    elif kind == "popular items":
        known = np.isin(items, np.argsort(-train.popularity())[:12]) & (rng.random(len(real)) < 0.5)
    elif kind == "mostly real":
        known = rng.random(len(real)) < np.where(real, 0.12, 0.03)
    else:
        known = rng.random(len(real)) < 0.1
        label = np.where(rng.random(len(real)) < 0.1, 1 - label, label)
    found = estimate(train, np.where(known, label, np.nan))
    assert auc_of_rest(found, real) > auc_of_rest(found, real, found.label_free) - 0.01
    if kind == "users":
        assert found.figures["held_out_by"] == "user"


@pytest.mark.usefixtures("few_penalties")
def test_labels_that_are_a_coin_for_each_user_are_not_used(log):
    """A user's labels are one observation: taken one by one, those of this draw would seem to teach something."""
    train, _ = log
    rng = np.random.default_rng(13)
    some, coin = rng.random(train.num_users) < 0.12, rng.random(train.num_users) < 0.6
    found = estimate(train, np.where(some[train.users], coin[train.users].astype(float), np.nan))
    assert found.figures["standard_errors"] > 0
    assert not found.used


@pytest.mark.parametrize(("fewest", "kind"), [(25, "pair"), (32, "user")])
def test_labels_are_held_out_as_they_are_missing(log, features, fewest, kind):
    """By pair where most interactions are of users with labels, even if most users have none; else by user, by the
    share of interactions whose user has none."""
    train, _ = log
    labelled = features.activity >= fewest
    covered = features.activity[labelled].sum() / len(features)
    rows = np.flatnonzero(labelled[train.users])
    assert labelled.mean() < 0.5
    found, folds = module._folds(features, module._pairs(features, rows, np.ones(len(features))), RNG)
    assert found == kind
    assert [weight for weight, _ in folds] == ([1.0] if kind == "pair" else [covered, 1 - covered])
    users = train.users[rows]
    apart = [set(users[folds[-1][1] == one]) & set(users[folds[-1][1] != one]) == set() for one in range(5)]
    assert all(apart) == (kind == "user")


def test_the_interval_is_students_over_the_opinions():
    """By hand for four opinions: the interval of their mean, not of another opinion, which would be twice as wide."""
    opinions = np.array([0.45, 0.5, 0.5, 0.55])[:, None]
    mean, low, high = module.with_interval(opinions)
    half = 3.1824 * opinions.std(ddof=1) / 2  # t of three degrees of freedom, √4 opinions
    assert (mean[0], low[0], high[0]) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-4)
    _, low, high = module.with_interval(np.array([[0.1], [0.9]]))
    assert (low[0], high[0]) == (0, 1)


@pytest.mark.usefixtures("few_penalties")
def test_group_means_are_over_the_interactions_of_a_group(log):
    train, real = log
    group = train.users % 3
    for found in (estimate(train), estimate(train, some(real, 0.1))):
        mean, low, high = found.group_means(group, 4)
        assert mean[:3] == pytest.approx([found.p_real[group == n].mean() for n in range(3)])
        assert np.isnan(mean[3])
        assert (low[:3] <= mean[:3]).all()
        assert (mean[:3] <= high[:3]).all()


def test_19_of_20_intervals_of_a_group_hold_its_share_of_real_ones(log):
    """Of groups of 20 even where p_real itself is sure: so few are more often real, or less, by chance."""
    rng = np.random.default_rng(0)
    p_real = rng.random(len(log[1]))
    found = replace(estimate(log[0]), used=True, p_real=p_real, low=p_real, high=p_real)
    group = np.arange(len(p_real)) // 20
    real = rng.random(len(p_real)) < p_real
    _, low, high = found.group_means(group, group[-1] + 1)
    share = np.bincount(group, real) / np.bincount(group)
    assert 0.92 < ((low <= share) & (share <= high)).mean() < 0.98


def test_rows_are_taken_from_everything(log):
    found = estimate(log[0])
    rows = np.array([5, 3, 8])
    some = found.take(rows)
    assert np.array_equal(some.p_real, found.p_real[rows])
    assert np.array_equal(some.opinions, found.opinions[:, rows])
    assert np.array_equal(some.alone, found.alone[:, rows])
    assert some.families == found.families == ("popularity", "ease", "item-knn")


def test_most_is_unsure_of_what_is_as_likely_as_not():
    p_real = np.array([0.9, 0.45, 0.0, 0.7])
    assert np.argsort(uncertainty(p_real, used=True)).tolist() == [2, 0, 3, 1]
    anything = uncertainty(p_real, used=False)
    np.testing.assert_array_equal(anything, uncertainty(p_real[::-1], used=False))
    assert len(set(anything)) == 4


def test_no_two_of_a_user_or_an_item_until_these_run_out():
    users, items = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])
    unsure = np.array([0.1, 0.2, np.nan, 0.15])
    assert next_labels(unsure, users, items, 10).tolist() == [1, 3, 0]
    assert next_labels(unsure, users, items, 1).tolist() == [1]
    assert next_labels(np.full(4, np.nan), users, items, 3).tolist() == []
