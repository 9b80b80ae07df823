"""The estimator of p_real, the probability that an interaction is a real preference: with labels and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import expit, ndtri, stdtrit

from accord.data.attributes import Attributes
from accord.data.columns import Columns
from accord.data.csr import Csr, Floats, Rows
from accord.data.load import load_whole
from accord.errors import InputError
from accord.evaluation.noise import auc, calibration
from accord.models.histories import interaction_matrix
from accord.posteriors.features import Features, opinions_of_pairs
from accord.posteriors.logistic import MOST, Pairs, best_penalties, calibrated, fit, held_out, losses, spread

LEAST_LABELS, LEAST_OF_A_CLASS = 100, 10  # fewer labels cannot be checked on held-out ones
LEAST_TOGETHER = 20  # users, or items, with labels where most have none: with fewer, chance decides what is learned
FAR_FEWER = 0.5  # of the interactions near labels at random: labels that were asked of some users, or items, only
FOLDS = 5
MOST_SEARCHED = 20_000  # labelled pairs that the penalties are chosen by
MOST_FITTED = 1_000_000  # labelled pairs that are learned from
SURE = 1.64  # standard errors by which the labels must improve the held-out log loss to be used
LEAST_GAIN = 1.05  # weights that multiply the share of real ones by less change little, and that may be a loss
LEVEL = 0.95
NORMAL = float(ndtri((1 + LEVEL) / 2))  # standard deviations of a normal variable that hold so much of it
ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class Estimate:
    """p_real of each interaction, with an interval, in the order of the matrix.
    The p_real of a labelled interaction comes from the other labels."""

    p_real: Floats  # [n]
    low: Floats
    high: Floats
    label: Floats  # [n], NaN where unknown
    opinions: Floats  # [pairs of families, n] label-free p_real by two families at a time
    alone: Floats  # [families, n] label-free p_real by each family alone
    families: tuple[str, ...]
    used: bool  # whether p_real comes from the labels
    why: str  # one sentence: what the labels teach, or why they are not used
    figures: dict[str, Any]  # measured on held-out labels

    @property
    def label_free(self) -> Floats:
        """p_real without labels: [n]."""
        return np.asarray(self.opinions.mean(0))

    @property
    def believed(self) -> Floats:
        """The label where there is one and labels are used, else p_real: [n]."""
        return np.where(np.isnan(self.label) | (not self.used), self.p_real, self.label)

    def take(self, rows: Rows) -> Estimate:
        arrays = {one.name: getattr(self, one.name) for one in fields(self) if one.type == "Floats"}
        return replace(self, **{name: values[..., rows] for name, values in arrays.items()})

    def group_means(self, group: Rows, size: int) -> tuple[Floats, Floats, Floats]:
        """Mean p_real of each group of interactions, with an interval of the share that is real; NaN for an empty
        group."""
        counts = np.bincount(group, minlength=size)
        with np.errstate(invalid="ignore"):
            if self.used:  # as wide as if all errors had one direction, and by the chance of so many to be real
                mean, low, high = (np.bincount(group, one, size) / counts for one in (self.p_real, self.low, self.high))
                chance = NORMAL * np.sqrt(np.bincount(group, self.p_real * (1 - self.p_real), size)) / counts
                low, high = mean - np.hypot(mean - low, chance), mean + np.hypot(high - mean, chance)
                return mean, low.clip(0, 1), high.clip(0, 1)
            return with_interval(np.stack([np.bincount(group, one, size) / counts for one in self.opinions]))


def estimate(
    train: Csr, label: Floats | None = None, outside: Csr | None = None, held_out: Csr | None = None, info: Any = None
) -> Estimate:
    """`label` [n]: 1 real, 0 noise, a number between, or NaN if unknown; None: no labels. The same bits every time.
    `outside`: pairs that the log does not have, with a column `label`; they come after its interactions, and after
    those `held_out` that are as the log is. They teach where some label says noise. `info`: an items file's columns."""
    x = interaction_matrix(train)
    labels = np.full(x.nnz, np.nan) if label is None else np.asarray(label, dtype=np.float64)
    more = [part for part in (held_out, outside) if part is not None]
    labels = np.concatenate([labels, *(part.columns["label"] for part in more)])
    alike = x.nnz + (0 if held_out is None else len(held_out.items))
    none = np.zeros(0, np.int64)
    users, items = (np.concatenate([none, *(getattr(part, side) for part in more)]) for side in ("users", "items"))
    features = Features.of(x, (users, items), alike, _attributes(None if label is None else info))
    if not (labels <= 0.5).any():
        labels[alike:] = np.nan
    rows = np.flatnonzero(~np.isnan(labels))
    opinions = opinions_of_pairs(features.families, x.nnz)
    names = tuple(family.name for family in features.families)
    without = Estimate(
        *with_interval(opinions), labels, opinions, features.opinions, names, False, _too_few(labels),
        {"labels": len(rows)},
    )  # fmt: skip
    if without.why:
        return without
    if (labels[rows] <= 0.5).any():
        return _learn(features, rows, without)
    learned = _learn(features, _asked(features, rows, alike), replace(without, label=np.nan_to_num(labels)))
    return _relative(learned, labels)


def _attributes(info: pa.Table | None) -> Any:
    """What an items file says as features of items [I, F]; None if it tells none apart."""
    with suppress(InputError):
        return Attributes.of(info or pa.table({})).matrix.astype(np.float64)
    return None


def _asked(features: Features, given: Rows, alike: int) -> Rows:
    """The interactions that could have got a label, where only real ones have: all of the first `alike`; where those
    `given` are of far fewer users, or items, than so many drawn at random would be, those of these users, or items."""
    rows, share = np.arange(alike), len(given) / alike
    for side, counts in ((features.users, features.activity), (features.items, features.popularity)):
        some = np.unique(side[given])
        at_random = counts @ -np.expm1(counts * np.log1p(-min(share, 0.5)))
        if counts[some].sum() < FAR_FEWER * at_random:
            rows = rows[np.isin(side[rows], some)]
    return rows


def _relative(learned: Estimate, labels: Floats) -> Estimate:
    """p_real where only real interactions have labels: the chance of having one, as if those without were noise,
    divided by the mean chance of those that have one (Elkan and Noto, 2008)."""
    given = ~np.isnan(labels)
    figures = {**learned.figures, "labels": int(given.sum()), "only_real": True}
    if not learned.used:
        why = (
            f"{figures['labels']:,} labels, all of real ones, do not set these apart from the interactions without a "
            "label better than the log alone does, beyond chance: they are not used."
        )
        return replace(learned, label=labels, why=why, figures=figures)
    mean = learned.p_real[given].mean()
    p_real, low, high = (np.minimum(one / mean, 1) for one in (learned.p_real, learned.low, learned.high))
    why = (
        f"{figures['labels']:,} labels, all of real ones, are told from the interactions without a label with an AUC "
        f"of {figures['auc']:.3f} on held-out labels; the log alone has {figures['label_free_auc']:.3f}. The share of "
        "real ones is unknown: p_real gives their order, and is a probability only if real ones got labels at random."
    )
    return replace(learned, p_real=p_real, low=low, high=high, label=labels, why=why, figures=figures)


def with_interval(opinions: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean of the opinions [k, n] and Student's 95% interval of it, within 0 and 1."""
    mean, deviation = opinions.mean(0), opinions.std(0, ddof=1)
    half = stdtrit(len(opinions) - 1, (1 + LEVEL) / 2) * deviation / np.sqrt(len(opinions))
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _too_few(labels: Floats) -> str:
    number, real, noise = int((~np.isnan(labels)).sum()), int((labels > 0.5).sum()), int((labels <= 0.5).sum())
    if not number:
        return "no interaction has a label, so p_real follows from the log alone."
    others = noise or len(labels) - number  # where no label says noise, those without a label stand for it
    if number >= LEAST_LABELS and min(real, others) >= LEAST_OF_A_CLASS:
        return ""
    if not noise:
        return (
            f"{number} labels, all of real ones, with {others} interactions that have none, are too few to learn from: "
            f"give at least {LEAST_LABELS}, and {LEAST_OF_A_CLASS} without. They are not used, and p_real follows from "
            "the log alone."
        )
    return (
        f"{number} labels, {min(real, noise)} of the rarer class, are too few to learn from: give at least "
        f"{LEAST_LABELS}, {LEAST_OF_A_CLASS} of each class. They are not used, and p_real follows from the log alone."
    )


def _learn(features: Features, rows: Rows, without: Estimate) -> Estimate:
    """p_real from the labels, or the estimate `without` them if they do not improve it beyond chance."""
    rng = np.random.default_rng(0)
    shape = len(features.activity), len(features.popularity)
    rows = rng.permutation(rows)[:MOST_FITTED]
    pairs = _pairs(features, rows, without.label)
    searched = pairs.take(np.arange(min(len(rows), MOST_SEARCHED)))
    kind, folds = _folds(features, searched, rng)
    if not folds:
        number = len(np.unique(searched.users if kind == "user" else searched.items))
        why = (
            f"{len(rows)} labels of {number} {kind}s are too few to learn from, as most interactions are of {kind}s "
            f"that have none: give labels of at least {LEAST_TOGETHER}. They are not used, and p_real follows from the "
            "log alone."
        )
        return replace(without, why=why, figures={"labels": len(rows), "held_out_by": kind})
    penalties, logits = best_penalties(searched, features.groups, folds, shape)
    prior = ndtri(np.clip(without.label_free[rows[: len(searched)]], 1e-3, 1 - 1e-3))[:, None]
    nothing = Pairs(prior, searched.users, searched.items, searched.labels)
    base = held_out(nothing, features.groups[:0], (MOST,) * 4, folds[-1][1], shape)
    gain = losses(base, searched.labels) - losses(logits, searched.labels)
    together = {"pair": np.arange(len(rows)), "user": pairs.users, "item": pairs.items}[kind]
    error, _ = _standard_error(gain, together[: len(gain)])
    real = searched.labels > 0.5
    shift, slope = calibrated(logits, searched.labels)
    figures = {
        "labels": int((~np.isnan(without.label)).sum()), "real": float(np.nanmean(without.label)), "held_out_by": kind,
        "auc": auc(logits, real), "label_free_auc": auc(base, real),
        "log_loss": float(losses(logits, searched.labels).mean()),
        "label_free_log_loss": float(losses(base, searched.labels).mean()),
        "standard_errors": float(gain.mean() / max(error, 1e-12)),
        "ece": calibration(expit(shift + slope * logits), real)["ece"], "penalties": list(penalties),
        "families": list(without.families),
    }  # fmt: skip
    if gain.mean() < SURE * error:
        why = (
            f"{figures['labels']} labels do not tell real from noise better than the log alone does (held-out AUC "
            f"{figures['auc']:.3f} against {figures['label_free_auc']:.3f}), beyond chance: they are not used."
        )
        return replace(without, why=why, figures=figures)
    model = fit(pairs, features.groups, penalties, *shape)
    uncertainty = spread(model, pairs, features.groups, penalties)
    limits = pairs.features.min(0), pairs.features.max(0)
    limits[0][0], limits[1][0] = -np.inf, np.inf  # the label-free column may go beyond the labelled pairs
    p_real, low, high = (np.empty(len(features)) for _ in range(3))

    def put(where: Rows, eta: Floats, variance: Floats) -> None:
        middle, half = shift + slope * eta, NORMAL * slope * np.sqrt(variance)
        p_real[where], low[where], high[where] = expit(middle), expit(middle - half), expit(middle + half)

    for part in _blocks(len(features)):
        z = np.clip(_with_prior(features, part), *limits)
        users, items = features.users[part], features.items[part]
        put(part, model.logits(z, users, items), uncertainty.variances(z, users, items))
    fold = np.arange(len(rows)) % FOLDS  # of a labelled pair, what the other labels say
    variance = uncertainty.variances(pairs.features, pairs.users, pairs.items)
    put(rows, held_out(pairs, features.groups, penalties, fold, shape), variance)
    share, half = share_of_real(pairs.labels, together)
    why = (
        f"{figures['labels']:,} labels tell real from noise with an AUC of {figures['auc']:.3f} on labels held out by "
        f"{kind}; the log alone has {figures['label_free_auc']:.3f}. The share of real ones among labels is "
        f"{share:.0%} ± {100 * half:.0f}."
    )
    return replace(without, p_real=p_real, low=low, high=high, used=True, why=why, figures=figures)


def _with_prior(features: Features, rows: Rows) -> Floats:
    return np.column_stack([features.prior[rows], features.block(rows)])


def _pairs(features: Features, rows: Rows, labels: Floats) -> Pairs:
    z = np.empty((len(rows), 1 + len(features.groups)))
    for part in _blocks(len(rows)):
        z[part] = _with_prior(features, rows[part])
    return Pairs(z, features.users[rows], features.items[rows], labels[rows])


def _blocks(size: int) -> Iterator[Rows]:
    for start in range(0, size, ROWS_AT_ONCE):
        yield np.arange(start, min(start + ROWS_AT_ONCE, size))


def _folds(features: Features, pairs: Pairs, rng: np.random.Generator) -> tuple[str, list[tuple[float, Rows]]]:
    """How labels are held out, and the folds with the weight of each: the way in which labels are missing.
    By user if most interactions are of users without labels, by item if they are of items without, else one by one. In
    the first two cases folds one by one count too, by the share of interactions that have labels near. No folds: the
    users, or items, with labels are too few."""
    sides = {"user": (pairs.users, features.activity), "item": (pairs.items, features.popularity)}
    covered = {name: float(counts[np.unique(rows)].sum() / len(features)) for name, (rows, counts) in sides.items()}
    kind = min(covered, key=lambda name: covered[name])
    distinct, group = np.unique(sides[kind][0], return_inverse=True)
    one_by_one = np.arange(len(pairs)) % FOLDS  # the pairs are in random order
    if covered[kind] >= 0.5:
        return "pair", [(1.0, one_by_one)]
    if len(distinct) < LEAST_TOGETHER:
        return kind, []
    together = (rng.permutation(len(distinct)) % FOLDS)[group]
    return kind, [(covered[kind], one_by_one), (1 - covered[kind], together)]


def share_of_real(labels: Floats, group: Rows) -> tuple[float, float]:
    """The share of real ones among labels, and half of its 95% interval, where those of a group were drawn together:
    never less than that of as many labels one by one, half of them real."""
    error, groups = _standard_error(labels, group)
    half = float(stdtrit(max(groups - 1, 1), (1 + LEVEL) / 2)) * error
    return float(labels.mean()), max(half, NORMAL * 0.5 / len(labels) ** 0.5)


def _standard_error(values: Floats, group: Rows) -> tuple[float, float]:
    """Standard error of the mean, where the values of a group are not independent, by leaving out one group at a time;
    and how many groups of equal size would tell as much."""
    _, place, sizes = np.unique(group, return_inverse=True, return_counts=True)
    share = sizes / len(values)
    apart = np.bincount(place, values - values.mean()) / np.maximum(1 - share, share)
    return float(np.sqrt((apart**2).sum()) / len(values)), float(1 / (share**2).sum())


def uncertainty(p_real: Floats, used: bool) -> Floats:
    """How urgent a label is, [n]: by how uncertain p_real is, where labels are `used` for it.
    As long as labels teach nothing it is random: a sample that looks like the log teaches soonest, and one of doubtful
    cases hides that there is something to learn."""
    return p_real * (1 - p_real) if used else np.random.default_rng(0).random(len(p_real))


def next_labels(unsure: Floats, users: Rows, items: Rows, number: int) -> Rows:
    """Positions of that `number` of interactions, the most uncertain first, of different users and items; where these
    run out, of any. `unsure` [n]: NaN for those that have a label already."""
    order = np.argsort(-unsure, kind="stable")
    order = order[~np.isnan(unsure[order])]
    seen: tuple[set[int], set[int]] = set(), set()
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) == number:
            break
        user, item = int(users[place]), int(items[place])
        if user not in seen[0] and item not in seen[1]:
            seen[0].add(user)
            seen[1].add(item)
            chosen.append(place)
    rest = order[~np.isin(order, chosen)][: number - len(chosen)]
    return np.concatenate([np.array(chosen, dtype=np.int64), rest])


@dataclass(frozen=True)
class Posterior:
    """P(real | user, item, observed) of every interaction, under the caller's ids.

    >>> result = accord.posterior(accord.simulate(users=100, items=50, interactions=1_000).dataset)
    >>> result.table.num_rows, result.used
    (800, False)
    """

    table: pa.Table  # user, item, p_real, low, high, label (null where unknown), weight
    estimate: Estimate
    notes: tuple[str, ...]

    @property
    def used(self) -> bool:
        """Whether p_real comes from the labels."""
        return self.estimate.used

    @property
    def gain(self) -> str:
        """What weights can gain, by labels that did not teach the p_real of their pairs; "" where none says noise."""
        if not self.used or self.estimate.figures.get("only_real"):
            return ""
        label, p_real = self.estimate.label, self.estimate.p_real
        given = ~np.isnan(label)
        share, weighted = label[given].mean(), np.average(label[given], weights=p_real[given])
        expected = "weights are expected to help" if weighted > LEAST_GAIN * share else "expect little of weights"
        return (
            f"of labelled interactions {share:.1%} are real, and weighted by what the other labels say {weighted:.1%}: "
            f"{expected}."
        )


def posterior(log: Any, *, columns: Columns | None = None, labels: Any = None, events: str | None = None) -> Posterior:
    """The probability that each interaction of a log is a real preference, by the labels of some or by the log alone.

    `log`: what `accord.load` takes; of data that is already split, the training interactions. `labels`, `events`: as
    `accord.load` takes them. `low` to `high` is a 95% interval. The p_real of a labelled interaction comes from the
    other labels; its `weight` is its label, and p_real where there is none. Without labels, or where they do not
    improve p_real beyond chance, it follows from the log alone; `notes` says so.

    >>> log = accord.simulate(users=100, items=50, interactions=1_000).dataset
    >>> accord.posterior(log).table.column_names
    ['user', 'item', 'p_real', 'low', 'high', 'label', 'weight']
    """
    data = load_whole(log, columns=columns, labels=labels, events=events)
    train = data.csr(data.train, columns=("label",))
    result = estimate(train, train.columns.get("label"), data.labelled_outside, info=data.item_info)
    result = result.take(np.arange(len(train.items)))
    table = pa.table({
        "user": data.users.take(train.users), "item": data.items.take(train.items),
        "p_real": result.p_real, "low": result.low, "high": result.high,
        "label": pa.array(result.label, mask=np.isnan(result.label)), "weight": result.believed,
    })  # fmt: skip
    return Posterior(table, result, (*data.notes, result.why))
