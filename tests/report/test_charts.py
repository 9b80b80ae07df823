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
