"""The noise of a log: p_real of every interaction as tables, and as rates and examples for the summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.auditing.interaction_log import Log
from accord.data.csr import Bools, IntArray
from accord.posteriors.estimate import Estimate, estimate, next_labels, uncertainty

SUSPECT = 0.5  # an interaction with a lower p_real is more probably noise than not
TO_LABEL = 50  # interactions that are proposed for labels
SHOWN = 20
FEW = 5  # users and items with fewer interactions are not ranked among the noisiest: chance would decide


def judge(log: Log) -> Estimate:
    """p_real of every interaction, in the order of the log."""
    order = np.lexsort([log.items, log.users])
    labels = None if log.label is None else log.label[order]
    return estimate(log.csr(), labels, info=log.data.item_info).take(np.argsort(order))


def has_history(log: Log) -> Bools:
    """Whether user and item have another interaction; else only popularity can say something: [n]."""
    counts = (np.bincount(rows)[rows] for rows in (log.users, log.items))
    return np.logical_and(*(count > 1 for count in counts))


def interactions_table(log: Log, judged: Estimate) -> pa.Table:
    by_models = has_history(log)
    basis = np.full(len(log), "labels") if judged.used else np.where(by_models, "models", "popularity")
    columns: dict[str, Any] = {"user": log.rows.users, "item": log.rows.items}
    columns |= {"p_real": judged.p_real, "low": judged.low, "high": judged.high}
    columns["basis"] = pa.array(basis).dictionary_encode()
    columns["agree"] = pa.array((judged.alone >= SUSPECT).sum(0), pa.int32(), mask=~by_models)
    columns["of"] = pa.array(np.full(len(log), len(judged.families)), pa.int32())
    columns |= {} if log.label is None else {"label": pa.array(log.label, from_pandas=True)}
    columns |= {name: log.rows.table.column(name) for name in ("value", "time") if name in log.rows.table.column_names}
    return pa.table(columns)


def label_table(log: Log, judged: Estimate) -> pa.Table:
    """The interactions to label next, with an empty label; below them those that have one: a file for --labels."""
    unlabelled = np.ones(len(log), dtype=bool) if log.label is None else np.isnan(log.label)
    unsure = np.where(unlabelled, uncertainty(judged.p_real, judged.used), np.nan)
    rows = np.concatenate([next_labels(unsure, log.users, log.items, TO_LABEL), np.flatnonzero(~unlabelled)])
    pairs = log.rows.take(rows)
    titles = log.titles(pairs.items.to_pylist())
    label = np.full(len(rows), np.nan) if log.label is None else log.label[rows]
    columns: dict[str, Any] = {"user": pairs.users, "item": pairs.items}
    columns |= {"title": titles} if any(titles) else {}
    return pa.table(columns | {"p_real": judged.p_real[rows].round(4), "label": pa.array(label, from_pandas=True)})


def side_table(log: Log, judged: Estimate, side: str) -> pa.Table:
    """The users or the items that have interactions, each with its rate of noise."""
    rows, ids = (log.users, log.data.users) if side == "user" else (log.items, log.data.items)
    counts = np.bincount(rows, minlength=len(ids))
    present = np.flatnonzero(counts)
    p_real, low, high = (values[present] for values in judged.group_means(rows, len(ids)))
    suspects = np.bincount(rows[judged.p_real < SUSPECT], minlength=len(ids))[present]
    columns: dict[str, Any] = {side: ids.take(present), "interactions": counts[present], "p_real": p_real}
    return pa.table(columns | {"low": low, "high": high, "noise_rate": 1 - p_real, "suspects": suspects})


def noise_summary(log: Log, judged: Estimate, users: pa.Table, items: pa.Table) -> dict[str, Any]:
    """The part of the summary about noise; `users` and `items` are their side tables."""
    everything = np.zeros(len(log), dtype=np.int64)
    mean, low, high = (float(values[0]) for values in judged.group_means(everything, 1))
    counts, edges = np.histogram(judged.p_real, bins=20, range=(0, 1))
    by_models = has_history(log)
    order = np.argsort(judged.p_real, kind="stable")
    order = order[by_models[order]]
    summary = {
        "families": list(judged.families), "rate": 1 - mean, "low": 1 - high, "high": 1 - low,
        "suspects": int(np.sum(judged.p_real < SUSPECT)),
        "by_popularity_basis": int(np.sum(~by_models)),
        "histogram": [
            {"from": float(a), "to": float(b), "interactions": int(n)}
            for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
        "noisiest_users": _noisiest(users, "user"), "noisiest_items": _noisiest(items, "item"),
        "noisiest": _examples(log, judged, order[:SHOWN]),
    }  # fmt: skip
    if log.label is not None:
        summary["labels"] = {"used": judged.used, "why": judged.why, **judged.figures}
    return summary


def _noisiest(table: pa.Table, name: str) -> list[dict[str, Any]]:
    enough = table.filter(pc.greater_equal(table.column("interactions"), FEW))
    ordered = enough.sort_by([("noise_rate", "descending"), ("interactions", "descending")]).slice(0, SHOWN)
    return [
        {key: row[key] for key in (name, "interactions", "noise_rate")}
        | {"low": 1 - row["high"], "high": 1 - row["low"]}
        for row in ordered.to_pylist()
    ]


def _examples(log: Log, judged: Estimate, rows: IntArray) -> list[dict[str, Any]]:
    pairs = log.rows.take(rows).table.to_pylist()
    return [
        {"user": pair["user"], "item": pair["item"], "p_real": float(judged.p_real[row]),
         "low": float(judged.low[row]), "high": float(judged.high[row]), "value": pair.get("value")}
        for pair, row in zip(pairs, rows, strict=True)
    ]  # fmt: skip
