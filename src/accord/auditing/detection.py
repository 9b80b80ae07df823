"""How well p_real tells real from noise where values or labels say which is which, and a recalibrated probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from accord.auditing.interaction_log import Log, Truth
from accord.data.csr import Floats, IntArray
from accord.evaluation.noise import calibration
from accord.posteriors.estimate import Estimate

DRAWS = 500
GROUPS = 5  # of the users; each is recalibrated by the others
LEVEL = 0.95


def detection(log: Log, judged: Estimate, truth: Truth) -> tuple[dict[str, Any], Floats]:
    """The part of the summary about detection, and the recalibrated probability of every interaction."""
    mask = truth.labelled
    real, users = truth.real[mask], np.unique(log.users[mask], return_inverse=True)[1]
    popularity = (np.bincount(log.items)[log.items] - 1).astype(np.float64)
    scores: dict[str, Floats] = {"audit": judged.p_real, "popularity": popularity}
    scores |= {"without labels": judged.label_free} if judged.used else {}
    scores |= dict(zip(judged.families[1:], judged.alone[1:], strict=True))  # the first family is popularity
    number = int(users.max()) + 1
    drawn = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), size=DRAWS)
    draws = np.concatenate([np.ones((1, number)), drawn])  # how often each user counts: once, then as often as drawn
    figures = {name: _figures(values[mask], real, users, draws) for name, values in scores.items()}
    rows = [
        {"name": name, **_with_limits("auc", auc), **_with_limits("average_precision", precision)}
        for name, (auc, precision) in figures.items()
    ]
    gain, low, high = _with_limits("gain", figures["audit"][0] - figures["popularity"][0]).values()
    calibrated = recalibrated(judged.p_real, log, truth)
    summary = {
        "real": truth.real_rule, "noise": truth.noise_rule,
        "interactions": int(mask.sum()), "noise_rate": float(1 - real.mean()),
        "scores": rows, "gain": {"difference": gain, "low": low, "high": high},
        "reliability": {
            "before": _reliability(judged.p_real[mask], real), "after": _reliability(calibrated[mask], real),
        },
    }  # fmt: skip
    return summary | ({"by": "labels"} if truth.given else {}), calibrated


def recalibrated(p_real: Floats, log: Log, truth: Truth) -> Floats:
    """p_real calibrated by isotonic regression, fitted for each user on the truth about other users."""
    group = np.random.default_rng(0).integers(GROUPS, size=len(log.data.users))[log.users]
    calibrated = np.empty(len(p_real))
    for number in range(GROUPS):
        inside = group == number
        others = truth.labelled & ~inside
        if not truth.real[others].any() or truth.real[others].all():
            others = truth.labelled  # too few labelled users to hold some of them out
        calibrated[inside] = _isotonic(p_real[others], truth.real[others], p_real[inside])
    return calibrated


def _isotonic(p_real: Floats, real: Any, at: Floats) -> Floats:
    """Isotonic regression, interpolated between the middles of its steps."""
    values, place, counts = np.unique(p_real, return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=real) / counts
    fitted = isotonic_regression(share, weights=counts)
    middles = np.add.reduceat(values * counts, fitted.blocks[:-1]) / np.add.reduceat(counts, fitted.blocks[:-1])
    return np.interp(at, middles, fitted.x[fitted.blocks[:-1]])


def _reliability(p_real: Floats, real: Any) -> dict[str, Any]:
    figures = calibration(p_real, real)
    bins = figures["reliability"]
    rows = [
        {"p": p, "real": share, "interactions": count}
        for p, share, count in zip(bins["mean"], bins["real"], bins["count"], strict=True)
        if count
    ]
    return {"brier": figures["brier"], "ece": figures["ece"], "bins": rows}


def _figures(scores: Floats, real: Any, users: IntArray, draws: Floats) -> tuple[Floats, Floats]:
    """AUC, and average precision of finding noise, in every draw; the scores are sorted only once."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(scores[order]) != 0))
    is_real, users = real[order].astype(np.float64), users[order]
    figures = np.full((len(draws), 2), np.nan)
    for row, draw in zip(figures, draws, strict=True):
        weights = draw[users]
        reals, noises = (np.add.reduceat(weights * kind, starts) for kind in (is_real, 1 - is_real))
        if not reals.any() or not noises.any():
            continue
        below = np.cumsum(noises)
        row[0] = reals @ (below - noises / 2) / (reals.sum() * noises.sum())
        selected = below + np.cumsum(reals)
        precision = np.divide(below, selected, out=np.zeros_like(below), where=selected > 0)
        row[1] = noises @ precision / noises.sum()
    return figures[:, 0], figures[:, 1]


def _with_limits(name: str, values: Floats) -> dict[str, float]:
    """A figure in all draws: the first, and the limits of its interval by the others."""
    low, high = np.nanquantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {name: float(values[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
