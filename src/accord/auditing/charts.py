"""The charts of the audit's page: each makes an altair chart of a piece of the summary, in the page's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from accord.report.page import NOISE, REAL, SOFT

Row = Mapping[str, Any]
Drawing = Any  # an altair chart: altair's types do not follow its chains of calls
UNIT: dict[str, Any] = {
    "scale": alt.Scale(domain=[0, 1]),
    "axis": alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
}  # of a probability


def _chart(rows: Sequence[Row]) -> Any:
    return alt.Chart(pa.Table.from_pylist([dict(row) for row in rows]))


def _tooltips(**formats: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=form) for name, form in formats.items()]


def _diagonal(x: alt.X, y: alt.Y, names: Sequence[str]) -> Drawing:
    ends = _chart([dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)])
    return ends.mark_line(strokeDash=[4, 4], color=SOFT, tooltip=None).encode(x=x, y=y)


def lorenz(curve: Mapping[str, Sequence[float]]) -> Drawing:
    names = ("items", "interactions")
    x = alt.X("items:Q", title="share of the items, the least popular first", axis=alt.Axis(format="%"))
    y = alt.Y("interactions:Q", title="share of the interactions", axis=alt.Axis(format="%"))
    base = alt.Chart(pa.table(dict(curve))).encode(x=x, y=y, tooltip=_tooltips(**dict.fromkeys(names, ".1%")))
    return alt.layer(_diagonal(x, y, names), base.mark_area(opacity=0.2), base.mark_line(strokeWidth=2))


def over_time(line: Mapping[str, Any]) -> Drawing:
    unit = 1000 if line["is_date"] else 1  # Vega's dates are milliseconds
    rows = [
        {"at": unit * row["from"], "until": unit * row["to"], "interactions": row["interactions"]}
        for row in line["bins"]
    ]
    x = alt.X("at:T", title=None, axis=alt.Axis(tickCount=6)) if line["is_date"] else alt.X("at:Q", title="time")
    bars = _chart(rows).mark_rect(stroke=None)
    y, tooltip = alt.Y("interactions:Q", title=None), _tooltips(interactions=",")
    return bars.encode(x=x, x2="until", y=y, y2=alt.Y2Datum(0), tooltip=tooltip)


def histogram(bins: Sequence[Row]) -> Drawing:
    rows = [{**row, "what": "probably noise" if row["to"] <= 0.5 else "probably real"} for row in bins]
    scale = alt.Scale(domain=["probably noise", "probably real"], range=[NOISE, REAL])
    return (
        _chart(rows)
        .mark_bar(binSpacing=1)
        .encode(
            x=alt.X("from:Q", bin="binned", title="p_real", **UNIT),
            x2="to:Q",
            y=alt.Y("interactions:Q", title="interactions"),
            color=alt.Color("what:N", scale=scale),
            tooltip=_tooltips(**{"from": ".2f", "to": ".2f", "interactions": ","}),
        )
    )


def intervals(rows: Sequence[Row], field: str, axis: str) -> Drawing:
    """`noise_rate` or `p_real` of each group, with its interval."""
    noise = field == "noise_rate"
    form, colour = (".1%", NOISE) if noise else (".3f", REAL)
    shown = [{name: row[name] for name in ("label", field, "low", "high", "interactions")} for row in rows]
    first = "split(datum.value, ' to ')[0]" if noise else "datum.value"  # of a range; the tooltip shows all of it
    title = f"{axis}, from".removeprefix(", ") if noise else axis
    labels = alt.Axis(labelAngle=0, labelExpr=first)
    base = _chart(shown).encode(
        x=alt.X("label:N", sort=[row["label"] for row in rows], title=title, axis=labels),
        tooltip=[
            alt.Tooltip("label:N", title=axis or "time"),
            *_tooltips(**dict.fromkeys((field, "low", "high"), form), interactions=","),
        ],
    )
    y = alt.Y("low:Q", title=None, scale=alt.Scale(zero=noise), axis=alt.Axis(format="%" if noise else ""))
    span = base.mark_rule(strokeWidth=2, color=colour).encode(y=y, y2="high:Q")
    return alt.layer(span, base.mark_point(filled=True, size=70, opacity=1, color=colour).encode(y=f"{field}:Q"))


def reliability(figures: Mapping[str, Any]) -> Drawing:
    """The share that is real at each probability, before and after recalibration; the diagonal is perfect."""
    names = {"before": "p_real", "after": "recalibrated"}
    rows = [{"what": label, **row} for name, label in names.items() for row in figures[name]["bins"]]
    x = alt.X("p:Q", title="probability of being real", **UNIT)
    y = alt.Y("real:Q", title="share that is real", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    domain = list(names.values())
    lines = (
        _chart(rows)
        .mark_line(point={"filled": True, "size": 60}, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=alt.Color("what:N", scale=alt.Scale(domain=domain, range=[NOISE, REAL])),
            shape=alt.Shape("what:N", scale=alt.Scale(domain=domain)),
            tooltip=[alt.Tooltip("what:N"), *_tooltips(p=".3f", real=".3f", interactions=",")],
        )
    )
    return alt.layer(_diagonal(x, y, ("p", "real")), lines)
