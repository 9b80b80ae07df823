"""The noise of a log in numbers, as the summary and the page show it: rates, groups and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.auditing.judgement import SUSPECT, Judgement
from accord.auditing.timestamps import format_time
from accord.data.csr import IntArray

TENTHS = 10
SHOWN = 20
FEW = 5  # users and items with fewer interactions are not ranked among the noisiest: chance would decide
FEW_VALUES = 12


def noise_summary(judgement: Judgement, users: pa.Table, items: pa.Table) -> dict[str, Any]:
    log, opinion = judgement.log, judgement.opinion
    everything = np.zeros(len(log), dtype=np.int64)
    mean, low, high = (float(values[0]) for values in judgement.rates(everything, 1))
    counts, edges = np.histogram(judgement.p_real, bins=20, range=(0, 1))
    by_item, by_user = (np.bincount(rows)[rows] for rows in (log.items, log.users))
    order = np.argsort(judgement.p_real, kind="stable")
    order = order[opinion.known[order]]
    return {
        "runs": opinion.runs,
        "folds": opinion.folds,
        "rate": 1 - mean,
        "low": 1 - high,
        "high": 1 - low,
        "suspects": int(np.sum(judgement.p_real < SUSPECT)),
        "by_popularity_basis": int(np.sum(~opinion.known)),
        "histogram": [
            {"from": float(a), "to": float(b), "interactions": int(n)}
            for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
        "by_popularity": groups(judgement, by_item, _counts),
        "by_activity": groups(judgement, by_user, _counts),
        "by_time": _by_time(judgement),
        "by_value": _by_value(judgement),
        "noisiest_users": _noisiest(users, "user"),
        "noisiest_items": _noisiest(items, "item"),
        "noisiest": _pairs(judgement, order[:SHOWN]),
        "surest": _pairs(judgement, order[::-1][:SHOWN]),
    }


def groups(judgement: Judgement, values: npt.NDArray[Any], label: Callable[[Any, Any], str]) -> list[dict[str, Any]]:
    """Rates of noise in about ten groups of equal size, cut by a value of each interaction."""
    cuts = np.unique(np.quantile(values, np.arange(1, TENTHS) / TENTHS))
    place = np.searchsorted(cuts, values, side="right")
    found = []
    rates = judgement.rates(place, len(cuts) + 1)
    for number in np.unique(place):
        here = values[place == number]
        first, last = here.min().item(), here.max().item()
        mean, low, high = (float(part[number]) for part in rates)
        row = {"label": label(first, last), "from": first, "to": last, "interactions": len(here)}
        found.append(row | {"noise_rate": 1 - mean, "low": 1 - high, "high": 1 - low})
    return found


def _counts(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _by_time(judgement: Judgement) -> list[dict[str, Any]] | None:
    rows = judgement.log.rows
    if not rows.has_time or rows.table.column("time").null_count:
        return None
    times = rows.column("time")
    return groups(judgement, times, lambda first, last: f"{format_time(first, times)} to {format_time(last, times)}")


def _by_value(judgement: Judgement) -> list[dict[str, Any]] | None:
    rows = judgement.log.rows
    if not rows.has_value:
        return None
    values = rows.column("value").astype(np.float64)
    there = ~np.isnan(values)
    distinct = np.unique(values[there])
    cuts = distinct[1:] if len(distinct) <= FEW_VALUES else np.unique(np.quantile(values[there], np.arange(1, 10) / 10))
    place = np.where(there, np.searchsorted(cuts, values, side="right"), len(cuts) + 1)
    rates = judgement.rates(place, len(cuts) + 2)
    found = []
    for number in np.unique(place[there]):
        here = values[place == number]
        first, last = float(here.min()), float(here.max())
        mean, low, high = (float(part[number]) for part in rates)
        label = f"{first:g}" if first == last else f"{first:g} to {last:g}"
        found.append({"label": label, "from": first, "to": last, "interactions": len(here),
                      "p_real": mean, "low": low, "high": high})  # fmt: skip
    return found


def _noisiest(table: pa.Table, name: str) -> list[dict[str, Any]]:
    enough = table.filter(pc.greater_equal(table.column("interactions"), FEW))
    ordered = enough.sort_by([("noise_rate", "descending"), ("interactions", "descending")]).slice(0, SHOWN)
    return [
        {name: row[name], "interactions": row["interactions"], "noise_rate": row["noise_rate"],
         "low": 1 - row["high"], "high": 1 - row["low"]}
        for row in ordered.to_pylist()
    ]  # fmt: skip


def _pairs(judgement: Judgement, rows: Sequence[int] | IntArray) -> list[dict[str, Any]]:
    log = judgement.log
    places = np.asarray(rows, dtype=np.int64)
    table = log.rows.take(places).table
    found = []
    for row, place in zip(table.to_pylist(), places, strict=True):
        pair = {"user": row["user"], "item": row["item"], "p_real": float(judgement.p_real[place])}
        pair |= {"low": float(judgement.low[place]), "high": float(judgement.high[place]), "value": row.get("value")}
        found.append(pair)
    return found
