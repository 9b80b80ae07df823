"""What a report says about a run, as numbers: intervals, groups of users, probabilities, recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data.csr import IntArray
from accord.data.interactions import Interactions
from accord.evaluation.evaluate import Evaluation
from accord.evaluation.noise import detection, labels
from accord.evaluation.significance import Comparison, compare_to, interval_of_means
from accord.models import can_hold, cost_of
from accord.models.base import Shape
from accord.recommender.recommender import Recommender

MOST_JUDGED = 2_000_000  # interactions: more would give the same figures
SAMPLE = 5_000  # users whose lists are counted: enough for shares to the percent
TENTHS = 10
BINS = 20
MOST_VALUES = 10  # with more distinct values than this, they are grouped into fifths
EXAMPLES = 10
COUNTED = ("interactions of the user", "of the item")
MOST_SECONDS = 30  # that fitting EASE beside a run may take

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Interval:
    """A mean over users and seeds, and where it would be for other users and seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> list[Interval]:
        """One for each of several metrics [M, S, N], for S seeds and N users."""
        lows, highs = interval_of_means(values)
        means = values.mean((1, 2))
        return [cls(*map(float, figures)) for figures in zip(means, lows, highs, strict=True)]

    def __str__(self) -> str:
        return f"{self.mean:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True)
class Subject:
    """A run that the report is about, or what was fitted to compare it with."""

    name: str
    recommender: Recommender
    evaluation: Evaluation
    folder: str | None = None  # None: not a run of the user, but fitted for comparison

    @property
    def is_run(self) -> bool:
        return self.folder is not None

    @property
    def is_auto(self) -> bool:
        """Whether a search found it."""
        return "search" in self.recommender.metrics

    @cached_property
    def figures(self) -> dict[str, Interval]:
        """Every metric at every K."""
        return intervals(self.evaluation, np.ones(len(self.evaluation.users), dtype=bool))

    @cached_property
    def spread(self) -> dict[str, float]:
        """Standard deviation over the seeds, where there are several."""
        runs = self.evaluation.mean()
        names = runs[0] if len(runs) > 1 else {}
        return {name: float(np.std([run[name] for run in runs], ddof=1)) for name in names}

    @cached_property
    def judged(self) -> Interactions:
        """The training interactions, or a sample where there are many."""
        every = self.recommender.trained_on
        if len(every) <= MOST_JUDGED:
            return every
        return every.take(np.sort(np.random.default_rng(0).choice(len(every), MOST_JUDGED, False, shuffle=False)))

    @cached_property
    def beliefs(self) -> Floats | None:
        """What the run believes of each of these, a probability of being real; None if the model gives none."""
        if self.recommender.run.config.method is None:
            return None
        recommender = self.recommender
        return recommender.beliefs_of_rows(*self.judged.rows_in(recommender.users, recommender.items))

    @cached_property
    def found_noise(self) -> dict[str, float] | None:
        """How well that tells real interactions from noise, if their values say which is which."""
        return None if self.beliefs is None else found_noise(self.judged, self.beliefs)

    @cached_property
    def recommended(self) -> Recommended:
        return Recommended.of(self.recommender, lengths(self.evaluation)[-1])


def lengths(evaluation: Evaluation) -> list[int]:
    """The list lengths that a report shows: 10 and 20, or the two longest there are; what it says is of the last."""
    known = sorted({int(name.split("@")[1]) for name in evaluation.per_user})
    return [k for k in (10, 20) if k in known] if 20 in known else known[-2:]


def intervals(evaluation: Evaluation, keep: Bools, names: Sequence[str] | None = None) -> dict[str, Interval]:
    """The metrics of those users, each with its interval."""
    names = names or list(evaluation.per_user)
    found = Interval.of(np.stack([evaluation.per_user[name][:, keep] for name in names]))
    return dict(zip(names, found, strict=True))


def fitted_beside(model: str, recommender: Recommender, ks: Sequence[int]) -> Subject:
    """Popularity or EASE on the same data and under the same rules: what a model has to beat."""
    run = recommender.run.beside(model, "normal")
    method = run.build(recommender.train)
    method.target.fit(recommender.train)
    method.to(recommender.device)
    metrics = {"runs": [{"seed": run.config.seeds[0]}]}
    users, items = recommender.users, recommender.items
    fitted = Recommender(run, method, users, items, recommender.train, recommender.seen, metrics)
    return Subject(model, fitted, fitted.evaluate(recommender.relevant(), ks))


def beside(runs: Sequence[Subject], ks: Sequence[int]) -> list[Subject]:
    """What runs on the same data are compared with: popularity, and beside one alone EASE, where that is quick."""
    first, there = runs[0].recommender, {one.recommender.run.config.model for one in runs}
    names = [] if "popularity" in there else ["popularity"]
    small = can_hold("ease", len(first.items)) and cost_of("ease", {}, Shape.of(first.train)).fit <= MOST_SECONDS
    if len(runs) == 1 and "ease" not in there and small:
        names.append("ease")
    return [fitted_beside(name, first, ks) for name in names]


def same_data(subjects: Sequence[Subject]) -> bool:
    """Whether all have the same ids, history and test, so that their figures can be compared."""
    first, *others = (subject.recommender for subject in subjects)
    test = first.relevant()
    return all(
        first.users.ids.equals(other.users.ids)
        and first.items.ids.equals(other.items.ids)
        and np.array_equal(first.train.keys, other.train.keys)
        and np.array_equal(first.seen.keys, other.seen.keys)
        and np.array_equal(test.pairs.keys, other.relevant().pairs.keys)
        for other in others
    )


def user_groups(subject: Subject) -> list[tuple[str, Bools]]:
    """The test's users by how much history they have: none, and then in four groups of about equal size."""
    counts = subject.recommender.train.counts[subject.evaluation.users]
    warm = counts[counts > 0]
    groups = [("0 (cold)", counts == 0)]
    if len(warm):
        edges = np.unique(np.quantile(warm, [0, 0.25, 0.5, 0.75, 1], method="inverted_cdf"))
        starts = [edges[0], *(edge + 1 for edge in edges[1:-1])] if len(edges) > 1 else [edges[0]]
        ends = edges[1:] if len(edges) > 1 else edges
        for start, end in zip(starts, ends, strict=True):
            name = f"{start:,}" if start == end else f"{start:,} to {end:,}"
            groups.append((name, (counts >= start) & (counts <= end)))
    return [(name, keep) for name, keep in groups if keep.any()]


class Runs:
    """The runs of a report side by side, with what they have to beat beside them if all have the same data."""

    def __init__(self, runs: Sequence[tuple[str, Recommender]]) -> None:
        """Each run with its folder."""
        ks = sorted({k for _, recommender in runs for k in recommender.run.config.ks})
        self.runs = [
            Subject(name, recommender, _evaluated(recommender, ks), folder)
            for name, (folder, recommender) in zip(_names(runs), runs, strict=True)
        ]
        self.comparable = same_data(self.runs)
        self.subjects = list(self.runs)
        if self.comparable:
            self.subjects += beside(self.runs, ks)
        self.names = [one.name for one in self.subjects]
        self.beside = [one.name for one in self.subjects if not one.is_run]  # the first is grey in charts
        self.shown = lengths(self.runs[0].evaluation)
        self.k = self.shown[-1]
        self.recall, self.ndcg = f"recall@{self.k}", f"ndcg@{self.k}"
        self.testable = self.comparable and len(self.subjects) > 1 and len(self.runs[0].evaluation.users) > 1
        self._tested: dict[tuple[str, ...], dict[str, Comparison]] = {}

    def test(self, baseline: Subject, others: Sequence[Subject]) -> dict[str, Comparison]:
        """NDCG paired by user and, where all have the same seeds, by seed; else on the means over the seeds."""
        asked = tuple(one.name for one in (baseline, *others))
        if asked not in self._tested:
            self._tested[asked] = self._paired(baseline, others)
        return self._tested[asked]

    def _paired(self, baseline: Subject, others: Sequence[Subject]) -> dict[str, Comparison]:
        seeds = {one.recommender.run.config.seeds for one in (baseline, *others) if one.recommender.num_runs > 1}
        values = {one.name: one.evaluation.per_user[self.ndcg] for one in (baseline, *others)}
        if len(seeds) > 1:
            values = {name: array.mean(0, keepdims=True) for name, array in values.items()}
        base = values.pop(baseline.name)
        return compare_to(base, values)


def _names(runs: Sequence[tuple[str, Recommender]]) -> list[str]:
    """Model and method, or auto for what it found; with the folder where two have the same."""
    plain = ["auto" if "search" in one.metrics else one.name for _, one in runs]
    return [
        name if plain.count(name) == 1 else f"{name} ({folder})" for name, (folder, _) in zip(plain, runs, strict=True)
    ]


def _evaluated(recommender: Recommender, ks: Sequence[int]) -> Evaluation:
    """On its own test; what was just trained has been evaluated already."""
    known = recommender.evaluation
    if known is not None and {f"ndcg@{k}" for k in ks} <= set(known.per_user):
        return known
    return recommender.evaluate(ks=ks)


# --- how real a run considers the interactions


@dataclass(frozen=True)
class Values:
    """The training interactions in groups by their value, lowest first."""

    column: str  # its name in the source
    names: list[str]
    group: IntArray  # of each interaction; -1 where it has no value

    @classmethod
    def of(cls, interactions: Interactions) -> Values | None:
        if not interactions.has_value:
            return None
        values = interactions.column("value").astype(np.float64)
        known = np.isfinite(values)
        different = np.unique(values[known])
        if len(different) < 2:
            return None
        column = interactions.source_name("value")
        group = np.full(len(values), -1, dtype=np.int64)
        if len(different) <= MOST_VALUES:
            group[known] = np.searchsorted(different, values[known])
            return cls(column, [f"{value:g}" for value in different], group)
        edges = np.unique(np.quantile(values[known], np.linspace(0, 1, 6)))
        group[known] = np.clip(np.searchsorted(edges, values[known], side="right") - 1, 0, len(edges) - 2)
        names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
        return cls(column, names, group)


def found_noise(interactions: Interactions, scores: Floats) -> dict[str, float] | None:
    """How well scores tell real interactions from noise, if their values say which is which."""
    marks = labels(interactions)
    if marks is None:
        return None
    known, real = marks
    return detection(scores[known], real)


def found_by_popularity(subject: Subject) -> dict[str, float] | None:
    """How well the popularity of an item alone tells noise."""
    recommender, judged = subject.recommender, subject.judged
    popular = recommender.train.popularity()[judged.rows_in(recommender.users, recommender.items)[1]]
    return found_noise(judged, popular.astype(np.float64))


def histogram(beliefs: Floats) -> Floats:
    """Share of the interactions in each of equally wide bins from 0 to 1."""
    counts, _ = np.histogram(beliefs, bins=BINS, range=(0, 1))
    return counts / max(1, len(beliefs))


def extremes(subject: Subject) -> tuple[pa.Table, pa.Table]:
    """The interactions that are least and most probably real: with titles and values if they are known, and how many
    interactions their user and their item have."""
    beliefs, recommender = subject.beliefs, subject.recommender
    assert beliefs is not None
    order = np.argsort(beliefs, kind="stable")
    number = min(EXAMPLES, len(order) // 2)
    tables = []
    for rows in (order[:number], order[::-1][:number]):
        shown = subject.judged.take(rows)
        users, items = shown.rows_in(recommender.users, recommender.items)
        table = shown.table.select([name for name in ("user", "item", "value") if name in shown.names])
        counts = (recommender.train.counts[users], recommender.train.popularity()[items])
        for name, own in zip((*COUNTED, "belief"), (*counts, beliefs[rows]), strict=True):
            table = table.append_column(name, pa.array(own))
        tables.append(recommender.with_titles(table))
    return tables[0], tables[1]


# --- what a run recommends


@dataclass(frozen=True)
class Recommended:
    """The lists of the users, counted by item."""

    k: int
    users: int  # whose lists were counted
    counts: IntArray  # [I] how often each item is recommended
    coverage: float  # share of the items that are recommended to any user

    @classmethod
    def of(cls, recommender: Recommender, k: int) -> Recommended:
        """Of every user with a history, or of a sample where there are many."""
        warm = np.flatnonzero(recommender.train.counts)
        if len(warm) > SAMPLE:
            warm = np.sort(np.random.default_rng(0).choice(warm, SAMPLE, replace=False))
        lists = recommender.recommend(recommender.users.take(warm), k)
        counts = np.bincount(recommender.items.rows(lists.column("item")), minlength=len(recommender.items))
        return cls(k, len(warm), counts, float((counts > 0).mean()))


def gini(counts: IntArray) -> float:
    """How unequal counts are: 0 if all items have the same, near 1 if one item has all."""
    if not counts.sum():
        return 0.0
    ordered = np.sort(counts).astype(np.float64)
    places = np.arange(1, len(ordered) + 1)
    return float((2 * places - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))


def by_tenth(counts: IntArray, popularity: IntArray) -> list[float]:
    """Share of the counts that falls on each tenth of the items, the least popular tenth first."""
    order = np.argsort(popularity, kind="stable")
    total = max(1, int(counts.sum()))
    return [float(counts[part].sum() / total) for part in np.array_split(order, TENTHS)]


# --- how it was trained


@dataclass(frozen=True)
class Point:
    """A figure after an epoch, over the runs of a batch."""

    stage: str
    epoch: int
    mean: float
    low: float
    high: float


def curves(history: Sequence[dict[str, Any]], key: str) -> list[Point]:
    """The `loss` or the `valid` of each epoch that has it."""
    points = []
    for entry in history:
        values = [value for value in entry.get(key) or [] if value is not None]
        if values:
            points.append(Point(entry["stage"], entry["epoch"], float(np.mean(values)), min(values), max(values)))
    return points
