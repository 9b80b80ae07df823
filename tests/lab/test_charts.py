"""The drawings of the leaderboard and of injected noise."""

from __future__ import annotations

import numpy as np
import pytest

from accord_lab import charts


def test_methods_of_ones_own_can_be_drawn():
    values = np.array([0.1, 0.2])
    figure = charts.ranking("x.svg", "Data", [("GMF + mine", "my.module:Mine", values), ("EASE", "ease", values)], 0.3)
    assert "GMF + mine" in figure.svg
    assert "EASE with ratings" in figure.svg


def test_the_bins_of_all_seeds_are_weighted_by_their_pairs():
    seeds = [
        {"count": [10, 0, 1000], "mean": [0.1, 0.5, 0.9], "real": [0.2, 0.0, 0.8]},
        {"count": [30, 1, 1000], "mean": [0.2, 0.5, 0.9], "real": [0.4, 1.0, 0.6]},
    ]
    mean, real = charts._joined(seeds)
    assert mean == pytest.approx([(10 * 0.1 + 30 * 0.2) / 40, 0.9])  # the bin of one pair is left out
    assert real == pytest.approx([(10 * 0.2 + 30 * 0.4) / 40, 0.7])


def test_a_gain_is_filled_where_it_is_significant():
    test = {"low": 0.01, "high": 0.03, "difference": 0.02}
    tests = {("gmf", "deca"): test | {"p_holm": 0.01}, ("gmf", "tce"): test | {"p_holm": 0.5}}
    figure = charts.gains("gain.svg", "Data", tests)
    assert "GMF + DeCA" in figure.svg
    assert "GMF + T-CE" in figure.svg
    assert figure.svg == charts.gains("gain.svg", "Data", tests).svg  # the same bytes every time


def test_every_method_has_a_style_of_its_own():
    marked = {name: look for name, look in charts.STYLES.items() if look["marker"]}
    assert len({look["marker"] for look in marked.values()}) == len(marked)
    test = {"difference": 0.02, "low": 0.01, "high": 0.03, "p_holm": 0.01}
    assert charts.OTHER["color"] in charts.gains("gain.svg", "Data", {("gmf", "my.module:Mine"): test}).svg
