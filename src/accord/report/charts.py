"""The charts of reports: functions from rows to altair charts in the colours of the page.

An axis has no title if it would repeat that of the chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from accord.report.page import NOISE, REAL, SERIES, SOFT

Row = dict[str, Any]
Drawing = Any  # an altair chart; altair does not type its chained calls


def _colours(names: Sequence[str], grey: Sequence[str] = ()) -> alt.Scale:
    """A colour for each name, the same in every chart; baselines are grey."""
    coloured = [name for name in names if name not in grey]
    colours = {name: SERIES[number % len(SERIES)] for number, name in enumerate(coloured)}
    return alt.Scale(domain=list(names), range=[colours.get(name, SOFT) for name in names])


def _data(rows: Sequence[Row]) -> Any:
    return pa.Table.from_pylist(list(rows))


def dots(rows: Sequence[Row], metric: str, names: Sequence[str], grey: Sequence[str]) -> Drawing:
    """A metric of each run with its interval. Rows: run, mean, low, high."""
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y("run:N", sort=list(names), title=None, axis=alt.Axis(labelLimit=130, labelColor="var(--ink)")),
        color=alt.Color("run:N", scale=_colours(names, grey), legend=None),
        tooltip=_tooltips(("run", "N"), ("mean", metric), ("low", "from"), ("high", "to")),
    )
    span = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)), x2="high:Q"
    )
    return alt.layer(span, base.mark_point(filled=True, size=90, opacity=1).encode(x="mean:Q"))


def groups(
    rows: Sequence[Row], metric: str, title: str, order: Sequence[str], names: Sequence[str], grey: Sequence[str] = ()
) -> Drawing:
    """A metric of each run in each group. Rows: group, run, mean and, for an interval, low and high."""
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("group:N", sort=list(order), title=title, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False)),
        xOffset=alt.XOffset("run:N", sort=list(names)),
        color=alt.Color("run:N", scale=_colours(names, grey), sort=list(names), legend=_legend(names)),
    )
    fields = [("group", "N"), ("run", "N"), ("mean", metric)]
    points = base.mark_point(filled=True, size=60, opacity=1)
    if "low" not in rows[0]:
        return points.encode(tooltip=_tooltips(*fields))
    span = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
    return alt.layer(span, points).encode(tooltip=_tooltips(*fields, ("low", "from"), ("high", "to")))


def learning(rows: Sequence[Row], title: str, names: Sequence[str]) -> Drawing:
    """A metric by epoch: the mean over seeds, in a band from lowest to highest. Rows: run, epoch, mean, low, high."""
    epochs = sorted({row["epoch"] for row in rows})
    axis = alt.Axis(format="d", values=epochs if len(epochs) <= 10 else alt.Undefined)
    dashes = _legend(names, symbolType="stroke", symbolSize=400)  # distinguish lines without colour
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("epoch:Q", title="epoch", axis=axis, scale=alt.Scale(nice=False)),
        color=alt.Color("run:N", scale=_colours(names), legend=dashes),
        tooltip=_tooltips(("run", "N"), ("epoch", "N"), ("mean", title)),
    )
    y = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.2, tooltip=None).encode(y=y, y2="high:Q")
    dash = alt.StrokeDash("run:N", scale=alt.Scale(domain=list(names)))
    return alt.layer(band, base.mark_line(strokeWidth=2).encode(y="mean:Q", strokeDash=dash))


def probabilities(rows: Sequence[Row], names: Sequence[str]) -> Drawing:
    """Histograms over the probability of being real, one for each value. Rows: what, left, right, share."""
    scale = alt.Scale(domain=list(names), range=[NOISE, REAL] if len(names) == 2 else [REAL])
    axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
    chart = alt.Chart(_data(rows)).mark_bar(opacity=0.55, binSpacing=0, stroke=None)
    return chart.encode(
        x=alt.X("left:Q", bin="binned", title="probability of being real", scale=alt.Scale(domain=[0, 1]), axis=axis),
        x2="right:Q",
        y=alt.Y("share:Q", stack=None, title="share of interactions", axis=alt.Axis(format="%")),
        color=alt.Color("what:N", scale=scale, sort=list(names), legend=_legend(names)),
        tooltip=[*_tooltips(("what", "N")), alt.Tooltip("share:Q", format=".1%")],
    )


def _legend(names: Sequence[str], **options: Any) -> Any:
    return None if len(names) < 2 else alt.Legend(**options)


def _tooltips(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """A tooltip for each (field, title); the title 'N' stands for a nominal field under its name."""
    return [
        alt.Tooltip(f"{field}:N") if title == "N" else alt.Tooltip(f"{field}:Q", title=title, format=".4f")
        for field, title in fields
    ]
