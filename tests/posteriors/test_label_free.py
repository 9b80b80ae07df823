"""The probability that follows from percentiles, and from two families at a time."""

from __future__ import annotations

import numpy as np
import pytest

from accord.evaluation import noise
from accord.posteriors.label_free import chance_of_real, opinions_of_pairs
from accord.posteriors.leave_one_out import Family


def test_the_rate_of_noise_is_found_without_labels():
    rng = np.random.default_rng(1)
    real = rng.random(20_000) < 0.7
    place = np.where(real, rng.beta(6, 1, 20_000), rng.random(20_000))
    p_real = chance_of_real(place)
    assert 1 - p_real.mean() == pytest.approx(0.3, abs=0.03)
    assert noise.calibration(p_real, real)["ece"] < 0.03
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


def test_the_same_bits_every_time():
    rng = np.random.default_rng(5)
    real = rng.random(2000) < 0.5
    families = [family(name, 1.0, 1.0, real, rng) for name in "abc"]
    assert np.array_equal(opinions_of_pairs(families), opinions_of_pairs(families))
