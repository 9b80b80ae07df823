"""From what the runs think to a probability and an interval for every interaction, and to the rates of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import t

from accord.auditing.crossfit import Opinion
from accord.auditing.interaction_log import Log
from accord.auditing.p_real import Floats
from accord.auditing.timestamps import said
from accord.data.interactions import IntArray

SUSPECT = 0.5  # an interaction below is more probably noise than not
LEVEL = 0.95
TENTHS = 10
SHOWN = 20
FEW = 5  # interactions: below, a user or item is not among the noisiest, as chance decides
FEW_VALUES = 12


@dataclass(frozen=True)
class Judgement:
    """The probability that each interaction is a real preference, and of every run the rate of noise in groups."""

    log: Log
    opinion: Opinion
    runs: Floats  # [R, n]: each run's own probability, or what stands for it where no model can judge
    p_real: Floats  # [n] their mean
    low: Floats
    high: Floats

    @property
    def basis(self) -> npt.NDArray[np.str_]:
        return np.where(self.opinion.known, "models", "popularity")

    def rates(self, group: IntArray, size: int) -> tuple[Floats, Floats, Floats]:
        """Of each group the mean p_real and its interval over the runs; NaN for an empty group."""
        counts = np.bincount(group, minlength=size)
        with np.errstate(invalid="ignore"):
            means = np.stack([np.bincount(group, weights=own, minlength=size) / counts for own in self.runs])
        return (means.mean(0), *_interval(means))


def judge(log: Log, opinion: Opinion) -> Judgement:
    """The mean of the runs. Where no model can judge, runs say what they say of other pairs with as popular items."""
    runs = opinion.p_real.copy()
    group = np.floor(np.log2(opinion.popularity + 1)).astype(np.int64)
    low, high = np.empty(len(log)), np.empty(len(log))
    known = opinion.known
    low[known], high[known] = _interval(runs[:, known])
    p_real = runs.mean(0)
    some = np.unique(group[known])
    for value in np.unique(group[~known]):
        near = some[np.argmin(np.abs(some - value))]
        alike, here = known & (group == near), ~known & (group == value)
        runs[:, here] = runs[:, alike].mean(1, keepdims=True)
        p_real[here] = runs[:, here].mean(0)
        low[here], high[here] = np.quantile(p_real[alike], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    # the tail of a lopsided group may end before its mean
    return Judgement(log, opinion, runs, p_real, np.minimum(low, p_real), np.maximum(high, p_real))


def _interval(runs: Floats) -> tuple[Floats, Floats]:
    """Where the mean over runs [R, n] would lie with other runs, 19 times of 20: Student's interval, within 0 and 1."""
    mean, spread = runs.mean(0), runs.std(0, ddof=1)
    half = t.ppf((1 + LEVEL) / 2, len(runs) - 1) * spread / np.sqrt(len(runs))
    return np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


# --- tables


def interactions_table(judgement: Judgement, calibrated: Floats | None) -> pa.Table:
    log = judgement.log
    columns: dict[str, Any] = {"user": log.rows.users, "item": log.rows.items}
    columns |= {"p_real": judgement.p_real, "low": judgement.low, "high": judgement.high}
    columns["basis"] = pa.array(judgement.basis).dictionary_encode()
    columns |= {name: log.rows.table.column(name) for name in ("value", "time") if name in log.rows.table.column_names}
    return pa.table(columns | ({} if calibrated is None else {"p_calibrated": calibrated}))


def side_table(judgement: Judgement, name: str) -> pa.Table:
    """The users or the items that have interactions, each with its rate of noise."""
    log = judgement.log
    rows, ids = (log.users, log.data.users) if name == "user" else (log.items, log.data.items)
    counts = np.bincount(rows, minlength=len(ids))
    there = np.flatnonzero(counts)
    p_real, low, high = (values[there] for values in judgement.rates(rows, len(ids)))
    suspects = np.bincount(rows[judgement.p_real < SUSPECT], minlength=len(ids))[there]
    columns: dict[str, Any] = {name: ids.take(there), "interactions": counts[there], "p_real": p_real}
    return pa.table(columns | {"low": low, "high": high, "noise_rate": 1 - p_real, "suspects": suspects})


# --- what the summary says


def summary(judgement: Judgement, users: pa.Table, items: pa.Table) -> dict[str, Any]:
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
    return groups(judgement, times, lambda first, last: f"{said(first, times)} to {said(last, times)}")


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
    enough = table.filter(pa.compute.greater_equal(table.column("interactions"), FEW))
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


def titles_of(log: Log, items: Sequence[Any]) -> list[str | None]:
    """What the items are called, None where that is not known."""
    info = log.data.item_info
    if info is None:
        return [None] * len(items)
    rows = log.data.items.rows(items)
    return list(info.column("title").combine_chunks().take(pa.array(rows, mask=rows < 0)).to_pylist())
