"""The runs of a report with their evaluations, and the baselines fitted to compare them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from accord.data.csr import Floats, IntArray
from accord.errors import InputError
from accord.evaluation.evaluate import Evaluation
from accord.evaluation.significance import Comparison, compare_to, interval_of_means
from accord.models import can_hold, cost_of
from accord.models.base import Shape
from accord.recommender.recommender import Recommender

SAMPLE = 5_000  # users whose recommendations are counted: enough for shares to the percent
MOST_SECONDS = 30  # EASE is fitted as a baseline if it takes no longer
EASE = ("ease", "sparse-ease")  # the second where the first is too large


@dataclass(frozen=True)
class Interval:
    """A mean over users and seeds, with its 95% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> list[Interval]:
        """One for each of M metrics [M, S, N] of S seeds and N users."""
        ends = zip(values.mean((1, 2)), *interval_of_means(values), strict=True)
        return [cls(*map(float, numbers)) for numbers in ends]

    @property
    def ends(self) -> str:
        return f"{self.low:.4f} to {self.high:.4f}"


@dataclass(frozen=True)
class Entry:
    """A run of the report, or a baseline fitted to compare it with."""

    name: str
    recommender: Recommender
    evaluation: Evaluation
    folder: str | None = None  # None for a baseline

    @cached_property
    def metrics(self) -> dict[str, Interval]:
        """Every metric at every K."""
        per_user = self.evaluation.per_user
        return dict(zip(per_user, Interval.of(np.stack([*per_user.values()])), strict=True))

    @cached_property
    def spread(self) -> dict[str, float]:
        """Standard deviation of every metric over the seeds; empty for a single seed."""
        runs = self.evaluation.mean()
        names = runs[0] if len(runs) > 1 else {}
        return {name: float(np.std([run[name] for run in runs], ddof=1)) for name in names}

    @cached_property
    def lists(self) -> pa.Table:
        """What is recommended to a sample of users, in lists of the longest length shown."""
        users = self.recommender.users.take(sample_users(self.recommender, SAMPLE))
        return self.recommender.recommend(users, shown_ks(self.evaluation)[-1])

    @cached_property
    def recommended(self) -> IntArray:
        """[I] how often each item is in these lists."""
        items = self.recommender.items
        return np.bincount(items.rows(self.lists.column("item")), minlength=len(items))

    @property
    def coverage(self) -> float:
        """Share of the items that are recommended to any of these users."""
        return float((self.recommended > 0).mean())


def shown_ks(evaluation: Evaluation) -> list[int]:
    """The list lengths that a report shows: 10 and 20, or the two longest. Its conclusions are about the last."""
    ks = sorted({int(name.split("@")[1]) for name in evaluation.per_user})
    return [k for k in (10, 20) if k in ks] if 20 in ks else ks[-2:]


def sample_users(recommender: Recommender, most: int) -> IntArray:
    """The users with a history, or a fixed random sample of them."""
    warm = np.flatnonzero(recommender.train.counts)
    return warm if len(warm) <= most else np.sort(np.random.default_rng(0).choice(warm, most, replace=False))


def fit_baseline(model: str, recommender: Recommender, ks: Sequence[int]) -> Entry:
    """Popularity or EASE, fitted and evaluated on the same data by the same rules."""
    run = recommender.run.with_model(model, "normal")
    method = run.build(recommender.train)
    method.target.fit(recommender.train)
    method.to(recommender.device)
    metrics = {"runs": [{"seed": run.config.seeds[0]}]}
    users, items = recommender.users, recommender.items
    fitted = Recommender(run, method, users, items, recommender.train, recommender.seen, metrics)
    return Entry(model, fitted, fitted.evaluate(recommender.relevant(), ks))


def baselines(runs: Sequence[Entry], ks: Sequence[int]) -> list[Entry]:
    """Popularity, and for a single run the first EASE that is quick, unless they are among the runs."""
    first, models = runs[0].recommender, {one.recommender.run.config.model for one in runs}
    shape = Shape.of(first.train)
    quick = [name for name in EASE if can_hold(name, shape.num_items) and cost_of(name, {}, shape).fit <= MOST_SECONDS]
    names = ["popularity", *(quick[:1] if len(runs) == 1 else [])]
    return [fit_baseline(name, first, ks) for name in names if name not in models]


def require_same_data(entries: Sequence[Entry]) -> None:
    """Refuse runs with other ids, histories or tests than the first, whose metrics cannot be compared."""
    first, *others = (entry.recommender for entry in entries)
    test = first.relevant()
    for entry, other in zip(entries[1:], others, strict=True):
        if not (
            first.users.ids.equals(other.users.ids)
            and first.items.ids.equals(other.items.ids)
            and np.array_equal(first.train.keys, other.train.keys)
            and np.array_equal(first.seen.keys, other.seen.keys)
            and np.array_equal(test.pairs.keys, other.relevant().pairs.keys)
        ):
            raise InputError(
                f"{entry.folder} has other data or another test than {entries[0].folder}, so they cannot be compared; "
                "give runs of the same data and split, or make a report of each."
            )


class Runs:
    """The runs of a report, which all have the same data, and their baselines."""

    def __init__(self, runs: Sequence[tuple[str, Recommender]]) -> None:
        ks = sorted({k for _, recommender in runs for k in recommender.run.config.ks})
        self.runs = [
            Entry(name, recommender, _evaluate(recommender, ks), folder)
            for name, (folder, recommender) in zip(_names(runs), runs, strict=True)
        ]
        self.updated = any(one.recommender.updates for one in self.runs)
        if self.updated and len(runs) > 1:
            raise InputError("an updated run has no test to compare runs on; give it alone.")
        require_same_data(self.runs)
        self.baselines = [] if self.updated else baselines(self.runs, ks)
        self.entries = [*self.runs, *self.baselines]
        self.names = [one.name for one in self.entries]
        self.grey = [one.name for one in self.baselines[:1]]  # in charts
        self.ks = shown_ks(self.runs[0].evaluation)
        self.k = self.ks[-1]
        self.recall, self.ndcg = f"recall@{self.k}", f"ndcg@{self.k}"
        self.testable = len(self.entries) > 1 and len(self.runs[0].evaluation.users) > 1

    def best(self, entries: Sequence[Entry]) -> Entry:
        return max(entries, key=lambda one: one.metrics[self.ndcg].mean)

    def test(self, baseline: Entry, others: Sequence[Entry]) -> dict[str, Comparison]:
        """Compare NDCG paired by user and, if all have the same seeds, by seed; otherwise on the means over seeds."""
        entries = (baseline, *others)
        seeds = {one.recommender.run.config.seeds for one in entries if one.recommender.num_runs > 1}
        values = {one.name: one.evaluation.per_user[self.ndcg] for one in entries}
        if len(seeds) > 1:
            values = {name: array.mean(0, keepdims=True) for name, array in values.items()}
        return compare_to(values.pop(baseline.name), values)


def _names(runs: Sequence[tuple[str, Recommender]]) -> list[str]:
    """Model and method, or auto if a search chose them; with the folder if two have the same name."""
    names = ["auto" if "search" in one.metrics else one.name for _, one in runs]
    return [
        name if names.count(name) == 1 else f"{name} ({folder})" for name, (folder, _) in zip(names, runs, strict=True)
    ]


def _evaluate(recommender: Recommender, ks: Sequence[int]) -> Evaluation:
    """On its test; a run that was just trained has been evaluated already, and one that was updated cannot be."""
    if recommender.updates:
        none = dict.fromkeys(recommender.metrics["mean"], np.empty((1, 0)))
        return Evaluation(np.empty(0, np.int64), none, np.empty(0, bool))
    existing = recommender.evaluation
    if existing is not None and {f"ndcg@{k}" for k in ks} <= set(existing.per_user):
        return existing
    return recommender.evaluate(ks=ks)
