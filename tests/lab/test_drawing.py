"""How figures look."""

from __future__ import annotations

import math

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
