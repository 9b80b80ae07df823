"""The charts of the audit's page hold the numbers they are given."""

from __future__ import annotations

import pytest

from accord.auditing import charts

RATE = {"label": "1 to 3", "noise_rate": 0.25, "low": 0.2, "high": 0.3, "interactions": 40}


def values(chart):
    """All rows of all data in a chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def test_the_lorenz_curve_is_drawn_beside_equality():
    rows = values(charts.lorenz({"items": [0, 0.5, 1], "interactions": [0, 0.1, 1]}))
    assert {"items": 0.5, "interactions": 0.1} in rows
    assert {"items": 1.0, "interactions": 1.0} in rows


@pytest.mark.parametrize(("is_date", "kind", "factor"), [(True, "temporal", 1000), (False, "quantitative", 1)])
def test_dates_are_drawn_in_milliseconds(is_date, kind, factor):
    line = {"is_date": is_date, "bins": [{"from": 5, "to": 7, "interactions": 2}]}
    chart = charts.over_time(line)
    assert values(chart) == [{"at": 5 * factor, "until": 7 * factor, "interactions": 2}]
    assert chart.to_dict()["encoding"]["x"]["type"] == kind
    assert chart.to_dict()["encoding"]["y2"] == {"datum": 0}  # each from the axis up


def test_the_histogram_says_which_side_a_bin_is_on():
    bins = [{"from": low, "to": low + 0.25, "interactions": 1} for low in (0.0, 0.25, 0.5, 0.75)]
    assert [row["what"] for row in values(charts.histogram(bins))] == ["probably noise"] * 2 + ["probably real"] * 2


def test_rates_have_their_intervals():
    assert values(charts.intervals([RATE], "noise_rate", "interactions of the item")) == [RATE]
    by_value = {"label": "5", "p_real": 0.8, "low": 0.7, "high": 0.9, "interactions": 12}
    assert values(charts.intervals([by_value], "p_real", "rating")) == [by_value]


def test_reliability_shows_both_curves_and_the_diagonal():
    bins = [{"p": 0.2, "real": 0.3, "interactions": 5}]
    rows = values(charts.reliability({"before": {"bins": bins}, "after": {"bins": bins}}))
    assert {row.get("what") for row in rows} == {"p_real", "recalibrated", None}
    assert {"p": 1.0, "real": 1.0} in rows
