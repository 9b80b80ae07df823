"""From the opinions of the runs to one probability with an interval for every interaction, and rates of groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import stdtrit

from accord.auditing.crossfit import Opinion
from accord.auditing.interaction_log import Log
from accord.auditing.p_real import Floats
from accord.config import full_name
from accord.data.csr import IntArray
from accord.posteriors.estimate import Estimate, estimate
from accord.posteriors.next_labels import next_labels, uncertainty

SUSPECT = 0.5  # an interaction with a lower p_real is more probably noise than not
LEVEL = 0.95
TO_LABEL = 50  # interactions that are proposed for labels


@dataclass(frozen=True)
class Judgement:
    """The probability that each interaction is a real preference, by every run and over all runs."""

    log: Log
    opinion: Opinion
    runs: Floats  # [R, n]: each run's own probability, or that of similar pairs where no model can judge
    p_real: Floats  # [n] their mean, or what labels say
    low: Floats
    high: Floats
    learned: Estimate | None = None  # what labels say, in the order of the log, where they are behind p_real

    @property
    def basis(self) -> npt.NDArray[np.str_]:
        if self.learned is not None:
            return np.full(len(self.log), "labels")
        return np.where(self.opinion.known, "models", "popularity")

    @property
    def kinds(self) -> list[str]:
        """Of each run, what kind of model it is."""
        return [full_name(run["model"], run["method"]) for run in self.opinion.runs]

    @property
    def agreement(self) -> tuple[IntArray, int]:
        """How many kinds of model hold each interaction for real by themselves, [n], and how many there are."""
        own = [self.runs[[name == kind for name in self.kinds]].mean(0) for kind in dict.fromkeys(self.kinds)]
        return np.sum([p_real >= SUSPECT for p_real in own], axis=0), len(own)

    def rates(self, group: IntArray, size: int) -> tuple[Floats, Floats, Floats]:
        """For each group the mean p_real and its interval over the runs; NaN for an empty group."""
        counts = np.bincount(group, minlength=size)
        with np.errstate(invalid="ignore"):
            if self.learned is not None:  # as wide as if all of them erred together
                mean, low, high = (np.bincount(group, own, size) / counts for own in (self.p_real, self.low, self.high))
                return mean, low, high
            means = np.stack([np.bincount(group, weights=own, minlength=size) / counts for own in self.runs])
        return (means.mean(0), *_interval(means))


def learn(log: Log) -> Estimate | None:
    """What the given labels say of every interaction, in the order of the log; None where none were given."""
    if log.label is None:
        return None
    order = np.lexsort([log.items, log.users])
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    found = estimate(log.csr(), log.label[order])
    arrays = ("p_real", "low", "high", "label", "label_free")
    return replace(found, **{name: getattr(found, name)[back] for name in arrays})


def judge(log: Log, opinion: Opinion, learned: Estimate | None = None) -> Judgement:
    """The mean of the runs, or what labels say where they teach something.

    A pair that no model can judge gets the mean of pairs with similarly popular items."""
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
    found = Judgement(log, opinion, runs, p_real, np.minimum(low, p_real), np.maximum(high, p_real))
    if learned is None or not learned.used:
        return found
    return replace(found, p_real=learned.p_real, low=learned.low, high=learned.high, learned=learned)


def _interval(runs: Floats) -> tuple[Floats, Floats]:
    """Where the mean over runs [R, n] would lie with other runs, 19 times of 20: Student's interval, within 0 and 1."""
    mean, spread = runs.mean(0), runs.std(0, ddof=1)
    half = stdtrit(len(runs) - 1, (1 + LEVEL) / 2) * spread / np.sqrt(len(runs))
    return np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


# --- tables


def interactions_table(judgement: Judgement, calibrated: Floats | None) -> pa.Table:
    log = judgement.log
    columns: dict[str, Any] = {"user": log.rows.users, "item": log.rows.items}
    columns |= {"p_real": judgement.p_real, "low": judgement.low, "high": judgement.high}
    columns["basis"] = pa.array(judgement.basis).dictionary_encode()
    agree, of = judgement.agreement
    alone = ~judgement.opinion.known  # no model can judge it
    columns |= {"agree": pa.array(agree, pa.int32(), mask=alone), "of": pa.array(np.full(len(log), of), pa.int32())}
    columns |= {} if log.label is None else {"label": pa.array(log.label, from_pandas=True)}
    columns |= {name: log.rows.table.column(name) for name in ("value", "time") if name in log.rows.table.column_names}
    return pa.table(columns | ({} if calibrated is None else {"p_calibrated": calibrated}))


def to_label(judgement: Judgement) -> pa.Table:
    """The interactions to label next, with room for the label; under them those that have one: a file of labels."""
    log = judgement.log
    unlabelled = np.ones(len(log), dtype=bool) if log.label is None else np.isnan(log.label)
    unsure = np.where(unlabelled, uncertainty(judgement.p_real, judgement.learned is not None), np.nan)
    rows = np.concatenate([next_labels(unsure, log.users, log.items, TO_LABEL), np.flatnonzero(~unlabelled)])
    own = log.rows.take(rows)
    titles = log.titles(own.items.to_pylist())
    label = np.full(len(rows), np.nan) if log.label is None else log.label[rows]
    columns: dict[str, Any] = {"user": own.users, "item": own.items}
    columns |= {"title": titles} if any(titles) else {}
    return pa.table(columns | {"p_real": judgement.p_real[rows].round(4), "label": pa.array(label, from_pandas=True)})


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
