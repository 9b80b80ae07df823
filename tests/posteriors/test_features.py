"""Features of interactions: their scale, their groups, and the order of the label-free column."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from accord.evaluation import noise
from accord.models.histories import interaction_matrix
from accord.posteriors.features import GROUPS, Features, chance_of_real, opinions_of_pairs
from accord.posteriors.leave_one_out import Family
from helpers import small_data

DATA = small_data()
FEATURES = Features.of(interaction_matrix(DATA.training_csr()))


def test_every_feature_has_mean_zero_and_spread_one_and_a_factor_the_less_the_less_it_explains():
    block = FEATURES.block(np.arange(len(FEATURES)))
    assert block.shape == (560, len(FEATURES.groups))
    np.testing.assert_allclose(block.mean(0), 0, atol=1e-9)
    spread, values = block.std(0), FEATURES.factors.values
    counts = spread[FEATURES.groups == 0]
    assert np.all(np.isclose(counts, 1) | (counts == 0))
    for place in (1, 2, 3):
        own = spread[FEATURES.groups == place][1:]  # the first factor may have none
        np.testing.assert_allclose(own, (values[1:] / values[1]) ** 2)
    assert np.isfinite(block).all()
    assert set(FEATURES.groups) == set(range(len(GROUPS) - 1)), "there are no attributes"


def test_attributes_add_what_tells_items_apart_each_the_less_the_less_it_explains():
    kinds = np.arange(len(DATA.items)) % 3
    attributes = np.column_stack([kinds == kind for kind in range(3)]).astype(float)
    made = Features.of(interaction_matrix(DATA.training_csr()), attributes=sp.csr_matrix(attributes))
    some = np.arange(len(made))
    own = made.block(some)[:, made.groups == len(GROUPS) - 1]
    assert own.std(0).max() == pytest.approx(1)
    kind = kinds[made.items]
    inside = sum(own[kind == one].var(0).sum() * (kind == one).mean() for one in range(3))
    assert inside < 1e-9 < own.var(0).sum(), "items of one kind are alike"
    assert np.array_equal(made.block(some)[:, made.groups < len(GROUPS) - 1], FEATURES.block(some))


def test_some_rows_are_those_of_all():
    rows = np.array([5, 17, 401])
    np.testing.assert_array_equal(FEATURES.block(rows), FEATURES.block(np.arange(len(FEATURES)))[rows])


def test_the_label_free_column_has_the_order_of_the_mean_over_families():
    mean = FEATURES.opinions.mean(0)
    order = np.argsort(mean, kind="stable")
    assert (np.diff(FEATURES.prior[order]) >= 0).all()
    same = np.diff(mean[order]) == 0
    assert (np.diff(FEATURES.prior[order])[same] == 0).all()


def test_the_same_bits_every_time():
    again = Features.of(interaction_matrix(DATA.training_csr()))
    rows = np.arange(len(FEATURES))
    assert np.array_equal(again.block(rows), FEATURES.block(rows))
    assert np.array_equal(again.prior, FEATURES.prior)


def test_the_rate_of_noise_is_found_without_labels():
    rng = np.random.default_rng(1)
    real = rng.random(20_000) < 0.7
    place = np.where(real, rng.beta(6, 1, 20_000), rng.random(20_000))
    p_real = chance_of_real(place)
    assert 1 - p_real.mean() == pytest.approx(0.3, abs=0.03)
    assert noise.calibration(p_real, real)["ece"] < 0.03
    likely = 0.7 * 6 * place**5  # the density of percentiles of real ones, beside .3 of noise
    assert np.abs(p_real - likely / (likely + 0.3)).mean() < 0.015
    order = np.argsort(place)
    assert (np.diff(p_real[order]) >= 0).all()


def test_where_all_is_noise_nothing_is_believed():
    p_real = chance_of_real(np.random.default_rng(2).random(5000))
    assert p_real.mean() < 0.1


def family(name, signal, blur, real, rng):
    """A family whose percentiles of real preferences are higher the less it blurs them; random pairs are uniform."""
    score = np.where(real, signal, 0.0) + blur * rng.standard_normal(len(real))
    random = blur * rng.standard_normal(20_000)
    percentiles = [np.searchsorted(np.sort(random), part) / len(random) for part in (score, random)]
    return Family(name, score, *percentiles)


def test_two_families_tell_more_than_each_and_the_better_one_counts_more():
    rng = np.random.default_rng(3)
    real = rng.random(20_000) < 0.7
    sharp, blurred, useless = (
        family(name, signal, 1.0, real, rng) for name, signal in (("a", 2.0), ("b", 1.0), ("c", 0.0))
    )
    opinions = opinions_of_pairs([sharp, blurred, useless])
    assert opinions.shape == (3, 20_000)
    both, with_useless, _ = (noise.auc(one, real) for one in opinions)
    alone = noise.auc(sharp.percentiles, real)
    assert both > alone + 0.005
    assert with_useless == pytest.approx(alone, abs=0.005)
    assert 1 - opinions[0].mean() == pytest.approx(0.3, abs=0.05)


def test_ties_are_neither_noise_nor_real():
    """Where a family scores most pairs alike, they do not all count as real because nothing lies below them."""
    rng = np.random.default_rng(4)
    flat = Family("flat", np.zeros(5000), np.full(5000, 0.5), np.full(20_000, 0.5))
    other = family("other", 0.0, 1.0, np.zeros(5000, dtype=bool), rng)
    (opinion,) = opinions_of_pairs([flat, other])
    assert opinion.mean() < 0.15
    (opinion,) = opinions_of_pairs([flat, flat])
    assert np.ptp(opinion) == 0
    assert opinion[0] < 0.3


def test_opinions_have_the_same_bits_every_time():
    rng = np.random.default_rng(5)
    real = rng.random(2000) < 0.5
    families = [family(name, 1.0, 1.0, real, rng) for name in "abc"]
    assert np.array_equal(opinions_of_pairs(families), opinions_of_pairs(families))
