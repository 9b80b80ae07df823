"""How well the audit tells real from noise where the values say which is which, and a recalibrated probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from accord.auditing.interaction_log import Labels, Log
from accord.auditing.judgement import Judgement
from accord.auditing.p_real import Floats
from accord.data.csr import IntArray
from accord.evaluation.noise import calibration

DRAWS = 500
GROUPS = 5  # of the users; each is recalibrated by the others
LEVEL = 0.95


def detection(judgement: Judgement, labels: Labels) -> tuple[dict[str, Any], Floats]:
    """The part of the summary about detection, and the recalibrated probability of every interaction."""
    log, opinion, known = judgement.log, judgement.opinion, labels.known
    real, users = labels.real[known], log.users[known]
    kinds = judgement.kinds
    scores = {"audit": judgement.p_real, "popularity": opinion.popularity.astype(np.float64)}
    if judgement.learned is not None:
        scores["without labels"] = judgement.runs.mean(0)
    for kind in dict.fromkeys(kinds):
        if kind != "popularity":
            scores[kind] = judgement.runs[[name == kind for name in kinds]].mean(0)
    drawn = _draws(users)
    figures = {name: _figures(_curves(values[known], real), users, drawn) for name, values in scores.items()}
    rows = []
    for name, (auc, precision) in figures.items():
        low, high = _quantiles(auc[1:])
        low_ap, high_ap = _quantiles(precision[1:])
        row = {"name": name, "auc": float(auc[0]), "auc_low": low, "auc_high": high}
        row |= {"average_precision": float(precision[0])}
        rows.append(row | {"average_precision_low": low_ap, "average_precision_high": high_ap})
    gain = figures["audit"][0] - figures["popularity"][0]
    low, high = _quantiles(gain[1:])
    calibrated = recalibrated(judgement.p_real, log, labels)
    reliability = {
        name: _reliability(values[known], real)
        for name, values in (("before", judgement.p_real), ("after", calibrated))
    }
    found = {"real": labels.real_rule, "noise": labels.noise_rule, "interactions": int(known.sum())}
    found |= {"noise_rate": float(1 - real.mean()), "scores": rows} | ({"by": "labels"} if labels.given else {})
    gained = {"difference": float(gain[0]), "low": low, "high": high}
    return found | {"gain": gained, "reliability": reliability}, calibrated


def recalibrated(p_real: Floats, log: Log, labels: Labels) -> Floats:
    """p_real calibrated to the labels by isotonic regression, fitted for each user on the labels of other users."""
    group = np.random.default_rng(0).integers(GROUPS, size=len(log.data.users))[log.users]
    found = np.empty(len(p_real))
    for number in range(GROUPS):
        own = group == number
        fitted = labels.known & ~own
        if not labels.real[fitted].any() or labels.real[fitted].all():
            fitted = labels.known  # too few labelled users to hold some of them out
        found[own] = _fitted(p_real[fitted], labels.real[fitted], p_real[own])
    return found


def _fitted(p_real: Floats, real: Any, wanted: Floats) -> Floats:
    """Isotonic regression, interpolated between the middles of its steps."""
    values, place, counts = np.unique(p_real, return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=real) / counts
    risen = isotonic_regression(share, weights=counts)
    middles = np.add.reduceat(values * counts, risen.blocks[:-1]) / np.add.reduceat(counts, risen.blocks[:-1])
    return np.interp(wanted, middles, risen.x[risen.blocks[:-1]])


def _reliability(p_real: Floats, real: Any) -> dict[str, Any]:
    found = calibration(p_real, real)
    bins = found["reliability"]
    rows = [
        {"p": p, "real": share, "interactions": count}
        for p, share, count in zip(bins["mean"], bins["real"], bins["count"], strict=True)
        if count
    ]
    return {"brier": found["brier"], "ece": found["ece"], "bins": rows}


# --- intervals: a bootstrap over users, each with all of their interactions


def _draws(users: IntArray) -> Floats:
    """[1 + DRAWS, users]: how often each user counts; the first row has every user once."""
    present = np.unique(users)
    drawn = np.random.default_rng(0).multinomial(len(present), np.full(len(present), 1 / len(present)), size=DRAWS)
    weights = np.concatenate([np.ones((1, len(present))), drawn]).astype(np.float64)
    spread = np.zeros((len(weights), int(users.max()) + 1))
    spread[:, present] = weights
    return spread


def _curves(scores: Floats, real: Any) -> Callable[[Floats], tuple[float, float]]:
    """AUC and average precision (of finding noise) as a function of the interactions' weights; sorts only once."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(scores[order]) != 0))
    is_real = real[order].astype(np.float64)

    def measure(weights: Floats) -> tuple[float, float]:
        own = weights[order]
        reals, noises = (np.add.reduceat(own * kind, starts) for kind in (is_real, 1 - is_real))
        total_real, total_noise = reals.sum(), noises.sum()
        if not total_real or not total_noise:
            return np.nan, np.nan
        below = np.cumsum(noises)
        auc = float(reals @ (below - noises / 2) / (total_real * total_noise))
        found = below + np.cumsum(reals)
        precision = np.divide(below, found, out=np.zeros_like(below), where=found > 0)
        return auc, float(noises @ precision / total_noise)

    return measure


def _figures(measure: Callable[[Floats], tuple[float, float]], users: IntArray, drawn: Floats) -> tuple[Floats, Floats]:
    both = np.array([measure(weights[users]) for weights in drawn])
    return both[:, 0], both[:, 1]


def _quantiles(values: Floats) -> tuple[float, float]:
    low, high = np.nanquantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
