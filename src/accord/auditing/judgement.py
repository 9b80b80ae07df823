"""From the opinions of the runs to one probability with an interval for every interaction, and rates of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import t

from accord.auditing.crossfit import Opinion
from accord.auditing.interaction_log import Log
from accord.auditing.p_real import Floats
from accord.data.csr import IntArray

SUSPECT = 0.5  # an interaction with a lower p_real is more probably noise than not
LEVEL = 0.95


@dataclass(frozen=True)
class Judgement:
    """The probability that each interaction is a real preference, by every run and over all runs."""

    log: Log
    opinion: Opinion
    runs: Floats  # [R, n]: each run's own probability, or that of similar pairs where no model can judge
    p_real: Floats  # [n] their mean
    low: Floats
    high: Floats

    @property
    def basis(self) -> npt.NDArray[np.str_]:
        return np.where(self.opinion.known, "models", "popularity")

    def rates(self, group: IntArray, size: int) -> tuple[Floats, Floats, Floats]:
        """For each group the mean p_real and its interval over the runs; NaN for an empty group."""
        counts = np.bincount(group, minlength=size)
        with np.errstate(invalid="ignore"):
            means = np.stack([np.bincount(group, weights=own, minlength=size) / counts for own in self.runs])
        return (means.mean(0), *_interval(means))


def judge(log: Log, opinion: Opinion) -> Judgement:
    """The mean of the runs. A pair that no model can judge gets the mean of pairs with similarly popular items."""
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
    # the tail of a skewed group may end before its mean
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
