"""p_real of every interaction of a log, from its labels where they teach something, else from the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, stdtrit

from accord.data.csr import Csr
from accord.evaluation.noise import auc, calibration
from accord.models.histories import interaction_matrix
from accord.posteriors.features import Features
from accord.posteriors.logistic import MOST, Pairs, best_penalties, calibrated, fit, held_out, losses, spread

LEAST_LABELS, LEAST_OF_A_CLASS = 100, 10  # fewer teach nothing that could be checked
LEAST_TOGETHER = 20  # users, or items, that have labels where most have none: of fewer, chance decides what is learned
FOLDS = 5
MOST_SEARCHED = 20_000  # labelled pairs that the penalties are chosen by
MOST_FITTED = 1_000_000  # labelled pairs that are learned from
SURE = 1.64  # standard errors by which the labels must improve the held-out log loss to be used
LEVEL = 0.95
ROWS_AT_ONCE = 2**17

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Estimate:
    """The chance that each interaction is real, with an interval, in the order of the matrix.

    A labelled interaction's is out of sample: its own label is not behind it.
    """

    p_real: Floats  # [n]
    low: Floats
    high: Floats
    label: Floats  # [n], NaN where unknown
    label_free: Floats  # [n] what it is without labels
    used: bool  # whether the labels are behind p_real
    why: str  # one sentence: what the labels taught, or why they were not used
    figures: dict[str, Any]  # of held-out labels

    @property
    def believed(self) -> Floats:
        """The label where there is one and labels are used, else p_real: [n]."""
        return np.where(np.isnan(self.label) | (not self.used), self.p_real, self.label)


def estimate(train: Csr, label: Floats | None = None) -> Estimate:
    """`label` [n]: 1 real, 0 noise, NaN unknown, or numbers between; None: none is known. The same bits every time."""
    x = interaction_matrix(train)
    known = np.full(x.nnz, np.nan) if label is None else np.asarray(label, dtype=np.float64)
    features = Features.of(x)
    rows = np.flatnonzero(~np.isnan(known))
    without = _label_free(features, known)
    if why := _too_few(known[rows]):
        return Estimate(*without, known, without[0], False, why, {"labels": len(rows)})
    return _learned(features, known, rows, without)


def _too_few(labels: Floats) -> str:
    if not len(labels):
        return "no interaction has a label, so p_real follows from the log alone."
    rarer = int(min((labels > 0.5).sum(), (labels <= 0.5).sum()))
    if len(labels) >= LEAST_LABELS and rarer >= LEAST_OF_A_CLASS:
        return ""
    return (
        f"{len(labels)} labels, {rarer} of the rarer class, are too few to learn from: give at least {LEAST_LABELS}, "
        f"{LEAST_OF_A_CLASS} of each class. They are not used, and p_real follows from the log alone."
    )


def _label_free(features: Features, known: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean over families, and where it would lie with others of their kind."""
    opinions = features.opinions
    mean, spread = opinions.mean(0), opinions.std(0, ddof=1)
    half = stdtrit(len(opinions) - 1, (1 + LEVEL) / 2) * spread / np.sqrt(len(opinions))
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _learned(features: Features, known: Floats, rows: Rows, without: tuple[Floats, Floats, Floats]) -> Estimate:
    rng = np.random.default_rng(0)
    shape = len(features.activity), len(features.popularity)
    rows = rng.permutation(rows)[:MOST_FITTED]
    pairs = _pairs(features, rows, known)
    few = pairs.take(np.arange(min(len(rows), MOST_SEARCHED)))
    kind, folds = _folds(features, few, rng)
    if not folds:
        number = len(np.unique(few.users if kind == "user" else few.items))
        why = (
            f"{len(rows)} labels of {number} {kind}s are too few to learn from, as most interactions are of {kind}s "
            f"that have none: give labels of at least {LEAST_TOGETHER}. They are not used, and p_real follows from the "
            "log alone."
        )
        return Estimate(*without, known, without[0], False, why, {"labels": len(rows), "held_out_by": kind})
    fold = folds[-1][1]
    penalties, logits = best_penalties(few, features.groups, folds, shape)
    nothing = Pairs(few.features[:, :1], few.users, few.items, few.labels)
    base = held_out(nothing, features.groups[:0], (MOST,) * 4, fold, shape)
    gain = losses(base, few.labels) - losses(logits, few.labels)
    error = _standard_error(gain, {"pair": np.arange(len(few)), "user": few.users, "item": few.items}[kind])
    real = few.labels > 0.5
    shift, slope = calibrated(logits, few.labels)
    figures = {
        "labels": int((~np.isnan(known)).sum()), "real": float(np.nanmean(known)), "held_out_by": kind,
        "auc": auc(logits, real), "label_free_auc": auc(base, real),
        "log_loss": float(losses(logits, few.labels).mean()),
        "label_free_log_loss": float(losses(base, few.labels).mean()),
        "standard_errors": float(gain.mean() / max(error, 1e-12)),
        "ece": calibration(expit(shift + slope * logits), real)["ece"], "penalties": list(penalties),
        "families": [family.name for family in features.families],
    }  # fmt: skip
    if gain.mean() < SURE * error:
        why = (
            f"{figures['labels']} labels do not tell real from noise better than the log alone does (held-out AUC "
            f"{figures['auc']:.3f} against {figures['label_free_auc']:.3f}), beyond chance: they are not used."
        )
        return Estimate(*without, known, without[0], False, why, figures)
    model = fit(pairs, features.groups, penalties, *shape)
    unsure = spread(model, pairs, features.groups, penalties)
    limits = pairs.features.min(0), pairs.features.max(0)
    limits[0][0], limits[1][0] = -np.inf, np.inf  # what the log alone says may go on where no label has been
    p_real, low, high = (np.empty(len(features)) for _ in range(3))
    width = stdtrit(10**6, (1 + LEVEL) / 2)

    def put(where: Rows, eta: Floats, variance: Floats) -> None:
        middle, half = shift + slope * eta, width * slope * np.sqrt(variance)
        p_real[where], low[where], high[where] = expit(middle), expit(middle - half), expit(middle + half)

    for part in _blocks(len(features)):
        z = np.clip(_with_prior(features, part), *limits)
        users, items = features.users[part], features.items[part]
        put(part, model.logits(z, users, items), unsure.variances(z, users, items))
    # of a labelled pair, what the other labels say
    own_fold = np.arange(len(rows)) % FOLDS
    variance = unsure.variances(pairs.features, pairs.users, pairs.items)
    put(rows, held_out(pairs, features.groups, penalties, own_fold, shape), variance)
    why = (
        f"{figures['labels']:,} labels tell real from noise with an AUC of {figures['auc']:.3f} on labels held out by "
        f"{kind}; the log alone has {figures['label_free_auc']:.3f}."
    )
    return Estimate(p_real, low, high, known, without[0], True, why, figures)


def _with_prior(features: Features, rows: Rows) -> Floats:
    return np.column_stack([features.prior[rows], features.block(rows)])


def _pairs(features: Features, rows: Rows, known: Floats) -> Pairs:
    z = np.empty((len(rows), 1 + len(features.groups)))
    for part in _blocks(len(rows)):
        z[part] = _with_prior(features, rows[part])
    return Pairs(z, features.users[rows], features.items[rows], known[rows])


def _blocks(size: int) -> Iterator[Rows]:
    for start in range(0, size, ROWS_AT_ONCE):
        yield np.arange(start, min(start + ROWS_AT_ONCE, size))


def _folds(features: Features, pairs: Pairs, rng: np.random.Generator) -> tuple[str, list[tuple[float, Rows]]]:
    """Labels are held out the way that they are missing: by user if most interactions are of users who have none, by
    item if they are of items that have none, else one by one. What the others have decides by its share too. No folds:
    the users, or items, that have labels are too few."""
    sides = {"user": (pairs.users, features.activity), "item": (pairs.items, features.popularity)}
    covered = {name: float(counts[np.unique(own)].sum() / len(features)) for name, (own, counts) in sides.items()}
    kind = min(covered, key=lambda name: covered[name])
    different, group = np.unique(sides[kind][0], return_inverse=True)
    one_by_one = np.arange(len(pairs)) % FOLDS  # they are in random order
    if covered[kind] >= 0.5:
        return "pair", [(1.0, one_by_one)]
    if len(different) < LEAST_TOGETHER:
        return kind, []
    together = (rng.permutation(len(different)) % FOLDS)[group]
    return kind, [(covered[kind], one_by_one), (1 - covered[kind], together)]


def _standard_error(values: Floats, group: Rows) -> float:
    """Of the mean, where the values of a group come together."""
    _, place = np.unique(group, return_inverse=True)
    sums = np.bincount(place, values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))
