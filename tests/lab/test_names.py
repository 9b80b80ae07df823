"""Names and numbers as the pages write them."""

from __future__ import annotations

import numpy as np
import pytest

from accord_lab.names import (
    display_name,
    mean_sd_or_none,
    p_value,
    percent,
    percent_span,
    short,
    span,
    standard_deviation,
)


def test_names_are_those_of_the_paper():
    names = ("gmf", "deca-p", "ml-100k", "rce", "ease-told", "mine")
    assert [display_name(name) for name in names] == [
        *("GMF", "DeCA(p)", "MovieLens-100k", "R-CE", "EASE with ratings", "mine"),
    ]


def test_numbers_are_rounded_and_never_cut():
    assert [short(0.11368), short(0.2651, 3), short(1.5, 1), short(-0.0028), short(-0.00001)] == [
        ".1137", ".265", "1.5", "−.0028", ".0000",
    ]  # fmt: skip
    assert [percent(-0.018), percent(0.0001), percent(-0.0001)] == ["−1.8%", "+0.0%", "+0.0%"]
    assert [span([0.3, 0.1, 0.2], 1), span([0.1], 1)] == [".1 to .3", ".1"]
    assert percent_span([0.1, -0.2]) == "−20.0% to +10.0%"
    assert [p_value(0.00001), p_value(0.0008), p_value(0.08), p_value(1.0)] == ["< .0001", ".0008", ".08", "1.00"]


def test_the_spread_of_one_run_is_zero():
    assert standard_deviation([0.1, 0.3]) == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert standard_deviation([0.1]) == 0
    assert mean_sd_or_none([0.1, 0.3]) == "0.2000 ± 0.1414"
    assert mean_sd_or_none(None) is None
