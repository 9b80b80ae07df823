"""How figures look."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accord_lab import drawing
from accord_lab.drawing import STYLES, drawn, legend_below, panels


def test_lines_differ_in_more_than_colour():
    for what in ("linestyle", "marker"):
        assert len({style[what] for style in STYLES}) == len(STYLES)
    greys = [_grey(style["color"]) for style in STYLES[:3]]
    assert min(abs(a - b) for i, a in enumerate(greys) for b in greys[:i]) > 0.1


def _grey(colour):
    """Luminance of a colour, 0 to 1, as a grey print has it."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return math.pow(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2, 1 / 2.2)


def test_a_drawing_is_the_same_every_time():
    def draw():
        canvas, axes = panels(2)
        for axis in axes:
            axis.plot([1, 2], [3, 4], label="a line")
        legend_below(canvas, axes)
        return drawn(canvas, "x.svg", "A title", "A caption.")

    figure = draw()
    assert figure.svg == draw().svg
    assert ">a line</text>" in figure.svg  # text stays text
    assert "<dc:date>" not in figure.svg
    assert (figure.title, figure.caption, figure.file) == ("A title", "A caption.", "x.svg")


def test_methods_of_ones_own_can_be_drawn():
    values = np.array([0.1, 0.2])
    figure = drawing.ranking("x.svg", "Data", [("GMF + mine", "my.module:Mine", values), ("EASE", "ease", values)], 0.3)
    assert "GMF + mine" in figure.svg
    assert "EASE with ratings" in figure.svg


def test_the_bins_of_all_seeds_are_weighted_by_their_pairs():
    seeds = [
        {"count": [10, 0, 1000], "mean": [0.1, 0.5, 0.9], "real": [0.2, 0.0, 0.8]},
        {"count": [30, 1, 1000], "mean": [0.2, 0.5, 0.9], "real": [0.4, 1.0, 0.6]},
    ]
    mean, real = drawing._joined(seeds)
    assert mean == pytest.approx([(10 * 0.1 + 30 * 0.2) / 40, 0.9])  # the bin of one pair is left out
    assert real == pytest.approx([(10 * 0.2 + 30 * 0.4) / 40, 0.7])


def test_a_gain_is_filled_where_it_is_significant():
    test = {"low": 0.01, "high": 0.03, "difference": 0.02}
    tests = {("gmf", "deca"): test | {"p_holm": 0.01}, ("gmf", "tce"): test | {"p_holm": 0.5}}
    figure = drawing.gains("gain.svg", "Data", tests)
    assert "GMF + DeCA" in figure.svg
    assert "GMF + T-CE" in figure.svg
    assert figure.svg == drawing.gains("gain.svg", "Data", tests).svg  # the same bytes every time


def test_every_method_has_a_style_of_its_own():
    marked = {name: look for name, look in drawing.LOOKS.items() if look["marker"]}
    assert len({look["marker"] for look in marked.values()}) == len(marked)
    test = {"difference": 0.02, "low": 0.01, "high": 0.03, "p_holm": 0.01}
    assert drawing.OTHER["color"] in drawing.gains("gain.svg", "Data", {("gmf", "my.module:Mine"): test}).svg
