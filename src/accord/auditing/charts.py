"""The charts of the audit's page: each makes an altair chart of a piece of the summary, in the page's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from accord.report.page import NOISE, REAL, SOFT

FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]  # ticks of a probability

Row = Mapping[str, Any]
Drawing = Any  # an altair chart: altair's types do not follow its own chains of calls


def _data(rows: Sequence[Row]) -> Any:
    return pa.Table.from_pylist([dict(row) for row in rows])


def lorenz(curve: Mapping[str, Sequence[float]]) -> Drawing:
    rows = [
        {"items": items, "interactions": share}
        for items, share in zip(curve["items"], curve["interactions"], strict=True)
    ]
    x = alt.X("items:Q", title="share of the items, the least popular first", axis=alt.Axis(format="%"))
    y = alt.Y("interactions:Q", title="share of the interactions", axis=alt.Axis(format="%"))
    shown = [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("items", "interactions")]
    base = alt.Chart(_data(rows)).encode(x=x, y=y, tooltip=shown)
    equal = alt.Chart(_data([{"items": 0.0, "interactions": 0.0}, {"items": 1.0, "interactions": 1.0}]))
    line = equal.mark_line(strokeDash=[4, 4], color=SOFT, tooltip=None).encode(x=x, y=y)
    return alt.layer(line, base.mark_area(opacity=0.2), base.mark_line(strokeWidth=2))


def over_time(line: Mapping[str, Any]) -> Drawing:
    rows = [{"at": row["from"], "until": row["to"], "interactions": row["interactions"]} for row in line["bins"]]
    x, x2 = _time_axis("at", line["is_date"]), "until"
    if line["is_date"]:
        rows = [{**row, "at": 1000 * row["at"], "until": 1000 * row["until"]} for row in rows]
    return (
        alt.Chart(_data(rows))
        .mark_rect(stroke=None)
        .encode(
            x=x,
            x2=x2,
            y=alt.Y("interactions:Q", title=None),
            y2=alt.Y2Datum(0),
            tooltip=[alt.Tooltip("interactions:Q", format=",")],
        )
    )


def _time_axis(field: str, is_date: bool) -> Any:
    if is_date:
        return alt.X(f"{field}:T", title=None, axis=alt.Axis(tickCount=6))
    return alt.X(f"{field}:Q", title="time")


def histogram(rows: Sequence[Row]) -> Drawing:
    made = [
        {
            "left": row["from"],
            "right": row["to"],
            "interactions": row["interactions"],
            "what": "probably noise" if row["to"] <= 0.5 else "probably real",
        }
        for row in rows
    ]
    scale = alt.Scale(domain=["probably noise", "probably real"], range=[NOISE, REAL])
    return (
        alt.Chart(_data(made))
        .mark_bar(binSpacing=1)
        .encode(
            x=alt.X(
                "left:Q", bin="binned", title="p_real", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(values=FIFTHS)
            ),
            x2="right:Q",
            y=alt.Y("interactions:Q", title="interactions"),
            color=alt.Color("what:N", scale=scale),
            tooltip=[
                alt.Tooltip("left:Q", title="from", format=".2f"),
                alt.Tooltip("right:Q", title="to", format=".2f"),
                alt.Tooltip("interactions:Q", format=","),
            ],
        )
    )


def rates(rows: Sequence[Row], axis: str) -> Drawing:
    """The rate of noise in groups, with its interval over the runs."""
    made = [{name: row[name] for name in ("label", "noise_rate", "low", "high", "interactions")} for row in rows]
    first = "split(datum.value, ' to ')[0]"  # of a range; the tooltip has the whole of it
    base = alt.Chart(_data(made)).encode(
        x=alt.X(
            "label:N",
            sort=[row["label"] for row in rows],
            title=f"{axis}, from" if axis else "from",
            axis=alt.Axis(labelAngle=0, labelExpr=first),
        ),
        tooltip=[
            alt.Tooltip("label:N", title=axis or "time"),
            *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("noise_rate", "low", "high")),
            alt.Tooltip("interactions:Q", format=","),
        ],
    )
    y = alt.Y("low:Q", title=None, axis=alt.Axis(format="%"))
    span = base.mark_rule(strokeWidth=2, color=NOISE).encode(y=y, y2="high:Q")
    return alt.layer(span, base.mark_point(filled=True, size=70, opacity=1, color=NOISE).encode(y="noise_rate:Q"))


def by_value(rows: Sequence[Row], column: str) -> Drawing:
    order = [row["label"] for row in rows]
    made = [{name: row[name] for name in ("label", "p_real", "low", "high", "interactions")} for row in rows]
    base = alt.Chart(_data(made)).encode(
        x=alt.X("label:N", sort=order, title=column, axis=alt.Axis(labelAngle=0)),
        tooltip=[
            alt.Tooltip("label:N", title=column),
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("p_real", "low", "high")),
            alt.Tooltip("interactions:Q", format=","),
        ],
    )
    y = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False))
    span = base.mark_rule(strokeWidth=2, color=REAL).encode(y=y, y2="high:Q")
    return alt.layer(span, base.mark_point(filled=True, size=70, opacity=1, color=REAL).encode(y="p_real:Q"))


def reliability(found: Mapping[str, Any]) -> Drawing:
    """The share that is real at each probability, before and after recalibration; the diagonal is perfect."""
    named = {"before": "p_real", "after": "recalibrated"}
    rows = [{"what": label, **row} for name, label in named.items() for row in found[name]["bins"]]
    names = list(named.values())
    axis = alt.Axis(values=FIFTHS)
    x = alt.X("p:Q", title="probability of being real", scale=alt.Scale(domain=[0, 1]), axis=axis)
    y = alt.Y("real:Q", title="share that is real", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    ends = alt.Chart(_data([{"p": 0.0, "real": 0.0}, {"p": 1.0, "real": 1.0}]))
    diagonal = ends.mark_line(strokeDash=[4, 4], color=SOFT, tooltip=None).encode(x=x, y=y)
    lines = (
        alt.Chart(_data(rows))
        .mark_line(point={"filled": True, "size": 60}, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=alt.Color("what:N", scale=alt.Scale(domain=names, range=[NOISE, REAL])),
            shape=alt.Shape("what:N", scale=alt.Scale(domain=names)),
            tooltip=[
                alt.Tooltip("what:N"),
                alt.Tooltip("p:Q", format=".3f"),
                alt.Tooltip("real:Q", format=".3f"),
                alt.Tooltip("interactions:Q", format=","),
            ],
        )
    )
    return alt.layer(diagonal, lines)
