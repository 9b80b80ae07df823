"""How figures look: SVG with the same bytes every time, and lines that differ in more than colour."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accord_lab.writing import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# dark to light, so that they differ in a grey print; each has a different dash and marker
STYLES = (
    {"color": "#000000", "linestyle": "-", "marker": "o"},
    {"color": "#0b5cad", "linestyle": "--", "marker": "s"},
    {"color": "#d55e00", "linestyle": "-.", "marker": "^"},
    {"color": "#56b4e9", "linestyle": ":", "marker": "D"},
)
LIGHT, DARK = {"color": "#cfe3f5", "edgecolor": "#333333"}, {"color": "#d55e00", "edgecolor": "#333333", "hatch": "///"}
LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, scaled and read by screen readers
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.6,
}


def panels(columns: int, rows: int = 1, width: float = 4.2, height: float = 3.2) -> tuple[Canvas, list[Any]]:
    """A drawing with panels side by side, row by row."""
    import matplotlib  # here, as training does not need it
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(LOOK):
        canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False)
    return canvas, list(axes.flat)


def drawn(canvas: Canvas, file: str, title: str, caption: str) -> Figure:
    """The drawing as a figure of a page, without date or random names in it."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context(LOOK | {"svg.hashsalt": file}):
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(title, out.getvalue(), caption, file)


def legend_below(canvas: Canvas, axes: Sequence[Any]) -> None:
    """One legend for all panels, under them."""
    handles, labels = axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
