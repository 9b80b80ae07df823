"""The share of noise by a mixture of two Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from accord_lab.methods.denoising_losses import noise_share


def mixture_of(values, steps=200):
    """EM on the values themselves, one by one."""
    mean, sd, share = [0.25, 0.75], [0.05**0.5] * 2, [0.5, 0.5]
    for _ in range(steps):
        density = np.stack([share[c] * norm.pdf(values, mean[c], sd[c]) for c in (0, 1)])
        belongs = density / density.sum(0)
        share = belongs.mean(1)
        mean = [np.average(values, weights=belongs[c]) for c in (0, 1)]
        sd = [max(1e-4, np.average((values - mean[c]) ** 2, weights=belongs[c])) ** 0.5 for c in (0, 1)]
    return share[int(np.argmax(mean))]


def users_of(losses, size):
    """Users of `size` interactions each, of which the first has loss 0 and the second 1: min-max leaves all as is."""
    rows = losses.reshape(-1, size - 2)
    whole = np.concatenate([np.zeros((len(rows), 1)), np.ones((len(rows), 1)), rows], 1)
    return whole.ravel(), np.arange(len(rows) + 1) * size


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_share_of_a_known_mixture(share):
    rng = np.random.default_rng(1)
    noisy = rng.random(40_000) < share
    drawn = np.where(noisy, rng.normal(0.75, 0.08, 40_000), rng.normal(0.25, 0.1, 40_000)).clip(0, 1)
    losses, ptr = users_of(drawn, 1002)
    found = noise_share(losses, ptr, np.ones(len(losses)))
    assert found == pytest.approx(share, abs=0.02)
    assert found == pytest.approx(mixture_of(losses), abs=0.01), "as without counting in bins"


def test_scale_and_level_of_a_user_do_not_matter():
    rng = np.random.default_rng(2)
    losses, ptr = users_of(rng.random(4000) ** 2, 42)
    plain = noise_share(losses, ptr, np.ones(len(losses)))
    factor, level = (np.repeat(rng.uniform(0.1, 9, 100), 42) for _ in range(2))
    assert noise_share(losses * factor + level, ptr, np.ones(len(losses))) == pytest.approx(plain, abs=1e-3)


def test_an_interaction_that_counts_for_nothing_says_nothing():
    rng = np.random.default_rng(3)
    drawn = np.concatenate([rng.normal(0.2, 0.05, 900), rng.normal(0.8, 0.05, 100)]).clip(0.01, 0.99)
    losses, ptr = users_of(rng.permutation(drawn), 1002)
    counts = np.where(losses > 0.5, 0.0, 1.0)
    assert noise_share(losses, ptr, np.ones(len(losses))) == pytest.approx(0.1, abs=0.01)
    assert noise_share(losses, ptr, counts + 1) == pytest.approx(0.1 / 1.9, abs=0.01)


def test_where_nothing_tells_there_is_no_noise():
    assert noise_share(np.full(6, 0.7), np.array([0, 3, 6]), np.ones(6)) == 0.0
    assert noise_share(np.array([0.1, 0.9]), np.array([0, 1, 2]), np.ones(2)) == 0.0
    assert noise_share(np.zeros(0), np.array([0]), np.zeros(0)) == 0.0
