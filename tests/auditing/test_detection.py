"""How well noise is found where the values say what is noise."""

from __future__ import annotations

import numpy as np
import pytest

from accord.auditing.detection import detection
from accord.auditing.interaction_log import open_log
from accord.evaluation import noise
from audit_logs import estimate_of, random_frame


def test_detection_is_that_of_noise_with_an_interval():
    log = open_log(random_frame(50, 40, 1200, rating=lambda rng, keys: rng.integers(1, 6, len(keys))))
    values, known = log.rows.column("value"), log.truth.labelled
    p_real = np.clip(np.round(values / 6 + np.random.default_rng(0).normal(0, 0.2, len(values)), 1), 0, 1)  # with ties
    judged = estimate_of(log, p_real)
    summary = detection(log, judged, log.truth)
    scores = {row["name"]: row for row in summary["scores"]}
    assert list(scores)[:2] == ["audit", "popularity"]
    by_labels = judged.p_real[known], log.truth.real[known]
    auc = noise.auc(*by_labels)
    assert scores["audit"]["auc"] == pytest.approx(auc)
    assert scores["audit"]["auc_low"] < scores["audit"]["auc"] < scores["audit"]["auc_high"]
    popular = noise.auc((np.bincount(log.items)[log.items] - 1)[known], log.truth.real[known])
    assert summary["gain"]["difference"] == pytest.approx(auc - popular)
    assert summary["gain"]["low"] > 0
    assert summary["calibration"]["ece"] == pytest.approx(noise.calibration(*by_labels)["ece"])
    assert summary["calibration"]["brier"] == pytest.approx(np.mean((by_labels[0] - by_labels[1]) ** 2))
