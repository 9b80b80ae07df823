"""Charts carry the rows they were given, and a colour for each name that is the same in all of them."""

from __future__ import annotations

from accord.report import charts
from accord.report.page import NOISE, REAL, SERIES, SOFT

INTERVAL = {"mean": 0.2, "low": 0.1, "high": 0.3}
NAMES = ["mf", "gmf", "popularity"]


def rows_of(spec):
    (rows,) = spec["datasets"].values()
    return rows


def scale_of(spec):
    layer = spec["layer"][-1] if "layer" in spec else spec
    scale = layer["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_runs_have_colours_and_baselines_are_grey():
    rows = [{"run": name, **INTERVAL} for name in NAMES]
    expected = {"mf": SERIES[0], "gmf": SERIES[1], "popularity": SOFT}
    dots = charts.dots(rows, "ndcg@20", NAMES, ["popularity"]).to_dict()
    assert scale_of(dots) == expected
    assert rows_of(dots) == rows


def test_more_names_than_colours_begin_again():
    names = [f"run {number}" for number in range(len(SERIES) + 1)]
    rows = [{"run": name, **INTERVAL} for name in names]
    assert scale_of(charts.dots(rows, "ndcg@20", names, []).to_dict())[names[-1]] == SERIES[0]


def test_noise_and_real_have_colours_of_their_own():
    bins = [{"from": 0.0, "to": 0.5, "interactions": 3}, {"from": 0.5, "to": 1.0, "interactions": 4}]
    drawn = charts.histogram(bins).to_dict()
    assert scale_of(drawn) == {"probably noise": NOISE, "probably real": REAL}
    assert [(row["what"], row["interactions"]) for row in rows_of(drawn)] == [
        ("probably noise", 3),
        ("probably real", 4),
    ]


RATE = {"label": "1 to 3", "noise_rate": 0.25, "low": 0.2, "high": 0.3, "interactions": 40}


def values(chart):
    """All rows of all data in a chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def test_rates_have_their_intervals():
    assert values(charts.intervals([RATE], "noise_rate", "interactions of the item")) == [RATE]
    by_value = {"label": "5", "p_real": 0.8, "low": 0.7, "high": 0.9, "interactions": 12}
    assert values(charts.intervals([by_value], "p_real", "rating")) == [by_value]


def test_reliability_shows_both_curves_and_the_diagonal():
    bins = [{"p": 0.2, "real": 0.3, "interactions": 5}]
    rows = values(charts.reliability({"before": {"bins": bins}, "after": {"bins": bins}}))
    assert {row.get("what") for row in rows} == {"p_real", "recalibrated", None}
    assert {"p": 1.0, "real": 1.0} in rows
