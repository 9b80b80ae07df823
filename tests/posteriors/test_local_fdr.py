"""The probability that follows from percentiles."""

from __future__ import annotations

import numpy as np
import pytest

from accord.evaluation import noise
from accord.posteriors.local_fdr import chance_of_real


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
