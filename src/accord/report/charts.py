"""The charts of reports and audits: functions from rows to altair charts in the colours of the page.

An axis has no title if it would repeat that of the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from accord.report.page import NOISE, REAL, SERIES, SOFT

Row = Mapping[str, Any]
Drawing = Any  # an altair chart; altair does not type its chained calls
PROBABILITY: dict[str, Any] = {"scale": alt.Scale(domain=[0, 1])}
TENTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]


def _chart(rows: Sequence[Row]) -> Any:
    return alt.Chart(pa.Table.from_pylist([dict(row) for row in rows]))


def _tooltips(*names: str, **formats: str) -> list[alt.Tooltip]:
    """Of nominal fields by name, and of numbers with their format."""
    numbers = [alt.Tooltip(f"{name}:Q", format=form) for name, form in formats.items()]
    return [*(alt.Tooltip(f"{name}:N") for name in names), *numbers]


def _colours(names: Sequence[str], grey: Sequence[str] = ()) -> alt.Scale:
    """A colour for each name, the same in every chart; baselines are grey."""
    coloured = [name for name in names if name not in grey]
    colours = {name: SERIES[number % len(SERIES)] for number, name in enumerate(coloured)}
    return alt.Scale(domain=list(names), range=[colours.get(name, SOFT) for name in names])


def dots(rows: Sequence[Row], metric: str, names: Sequence[str], grey: Sequence[str]) -> Drawing:
    """A metric of each run with its interval. Rows: run, mean, low, high."""
    numbers = {"mean": metric, "low": "from", "high": "to"}.items()
    base = _chart(rows).encode(
        y=alt.Y("run:N", sort=list(names), title=None, axis=alt.Axis(labelLimit=130, labelColor="var(--ink)")),
        color=alt.Color("run:N", scale=_colours(names, grey), legend=None),
        tooltip=[*_tooltips("run"), *(alt.Tooltip(f"{name}:Q", title=title, format=".4f") for name, title in numbers)],
    )
    x = alt.X("low:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    span = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    return alt.layer(span, base.mark_point(filled=True, size=90, opacity=1).encode(x="mean:Q"))


def histogram(bins: Sequence[Row]) -> Drawing:
    """Interactions by p_real, in the colours of noise and of real preferences. Rows: from, to, interactions."""
    sides = ["probably noise", "probably real"]
    rows = [{"what": sides[row["to"] > 0.5], **row} for row in bins]
    return (
        _chart(rows)
        .mark_bar(binSpacing=1, stroke=None)
        .encode(
            x=alt.X("from:Q", bin="binned", title="p_real", axis=alt.Axis(values=TENTHS, format=".1f"), **PROBABILITY),
            x2="to:Q",
            y=alt.Y("interactions:Q", stack=None, axis=alt.Axis(format=",.0f")),
            color=alt.Color("what:N", scale=alt.Scale(domain=sides, range=[NOISE, REAL]), legend=alt.Legend()),
            tooltip=_tooltips("what", **{"from": ".2f", "to": ".2f"}, interactions=",.0f"),
        )
    )
