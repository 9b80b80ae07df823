"""How well p_real tells real from noise where values or labels say which is which."""

from __future__ import annotations

from typing import Any

import numpy as np

from accord.auditing.interaction_log import Log, Truth
from accord.data.csr import Floats, IntArray
from accord.evaluation.noise import calibration
from accord.posteriors.estimate import Estimate

DRAWS = 500
LEVEL = 0.95


def detection(log: Log, judged: Estimate, truth: Truth) -> dict[str, Any]:
    """The part of the summary about detection."""
    mask = truth.labelled
    real, users = truth.real[mask], np.unique(log.users[mask], return_inverse=True)[1]
    popularity = (np.bincount(log.items)[log.items] - 1).astype(np.float64)
    scores: dict[str, Floats] = {"audit": judged.p_real, "popularity": popularity}
    scores |= {"without labels": judged.label_free} if judged.used else {}
    scores |= dict(zip(judged.families[1:], judged.alone[1:], strict=True))  # the first family is popularity
    number = int(users.max()) + 1
    drawn = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), size=DRAWS)
    draws = np.concatenate([np.ones((1, number)), drawn])  # how often each user counts: once, then as often as drawn
    aucs = {name: _aucs(values[mask], real, users, draws) for name, values in scores.items()}
    gain, low, high = _with_limits("gain", aucs["audit"] - aucs["popularity"]).values()
    fit = calibration(judged.p_real[mask], real)
    summary = {
        "real": truth.real_rule, "noise": truth.noise_rule,
        "interactions": int(mask.sum()), "noise_rate": float(1 - real.mean()),
        "scores": [{"name": name, **_with_limits("auc", values)} for name, values in aucs.items()],
        "gain": {"difference": gain, "low": low, "high": high},
        "calibration": {name: fit[name] for name in ("brier", "ece")},
    }  # fmt: skip
    return summary | ({"by": "labels"} if truth.given else {})


def _aucs(scores: Floats, real: Any, users: IntArray, draws: Floats) -> Floats:
    """AUC in every draw; the scores are sorted only once."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(scores[order]) != 0))
    is_real, users = real[order].astype(np.float64), users[order]
    result = np.full(len(draws), np.nan)
    for number, draw in enumerate(draws):
        weights = draw[users]
        reals, noises = (np.add.reduceat(weights * kind, starts) for kind in (is_real, 1 - is_real))
        if reals.any() and noises.any():
            result[number] = reals @ (np.cumsum(noises) - noises / 2) / (reals.sum() * noises.sum())
    return result


def _with_limits(name: str, values: Floats) -> dict[str, float]:
    """A figure in all draws: the first, and the limits of its interval by the others."""
    low, high = np.nanquantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {name: float(values[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
