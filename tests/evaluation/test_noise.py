"""Detection and calibration against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.data.interactions import Interactions
from accord.errors import InputError
from accord.evaluation.noise import auc, calibration, labels


def rated(values):
    return Interactions(pa.table({"user": range(len(values)), "item": range(len(values)), "value": values}))


def test_labels_by_value():
    known, real = labels(rated([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert known.tolist() == [True, True, False, True, True]
    assert real.tolist() == [False, False, True, True]
    known, real = labels(rated([0.0, 1.0, 1.0]))
    assert (known.all(), real.tolist()) == (True, [False, True, True])
    assert labels(rated([5.0, 4.0])) is None  # all real: nothing to tell apart
    assert labels(rated([12.0, 400.0, 3.0])) is None  # seconds or counts: no ratings
    assert labels(Interactions(pa.table({"user": [1], "item": [1]}))) is None


def test_detection_by_hand():
    scores, real = [0.9, 0.8, 0.7, 0.1], [True, False, True, False]
    assert auc(scores, real) == 0.75
    assert auc([0.5, 0.5], [True, False]) == 0.5
    with pytest.raises(InputError, match="both real and noisy"):
        auc([0.1, 0.2], [True, True])


def test_calibration_by_hand():
    found = calibration([0.25, 0.25, 0.95, 1.0], [True, False, True, True])
    assert found["brier"] == pytest.approx((0.75**2 + 0.25**2 + 0.05**2) / 4)
    assert found["ece"] == pytest.approx((2 * abs(0.25 - 0.5) + 2 * abs(0.975 - 1)) / 4)
    assert found["reliability"]["count"] == [0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    assert (found["reliability"]["mean"][2], found["reliability"]["real"][2]) == (0.25, 0.5)
    with pytest.raises(InputError, match="from 0 to 1"):
        calibration([1.2, 0.3], [True, False])


def test_true_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    found = calibration(p, rng.random(len(p)) < p)
    assert found["ece"] < 0.01
    assert found["brier"] == pytest.approx(1 / 6, abs=0.002)  # the mean of p (1 - p)


def test_detection_figures_by_hand():
    real = np.array([1, 1, 0, 1, 0], dtype=bool)
    scores = np.array([0.9, 0.8, 0.8, 0.4, 0.1])
    assert auc(scores, real) == pytest.approx((2 + 1.5 + 1) / 6)
    with pytest.raises(accord.InputError, match="both real and noisy"):
        auc(scores, np.ones(5, dtype=bool))
