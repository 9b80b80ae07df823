"""p_real without labels: how far an interaction stands out from random pairs, by two model families at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from accord.posteriors.leave_one_out import Family

BINS = 50  # of the density of percentiles, where there are enough pairs
LOWEST = 0.1  # share of the percentiles, from the bottom, that hold hardly any real preference
MOST_FITTED = 50_000  # interactions, and as many random pairs, that two families are combined by
PENALTY = 1.0

Floats = npt.NDArray[np.float64]


def chance_of_real(percentile: Floats, density_of: Floats | None = None) -> Floats:
    """The probability that an interaction is a real preference, from its percentile, over many interactions.

    Percentiles of noise are uniform, those of real preferences lie high. Their density d rises, so the lowest
    percentiles hold nothing but noise: the height there is the share π of noise, and at any percentile the chance of
    being noise is π / d (the local false discovery rate). `density_of`: percentiles to estimate d from, if others.
    """
    from scipy.optimize import isotonic_regression

    bins = int(np.clip(len(percentile) // 100, 10, BINS))
    counts, _ = np.histogram(percentile if density_of is None else density_of, bins=bins, range=(0.0, 1.0))
    density = isotonic_regression(counts / len(percentile) * bins).x
    rate = min(1.0, float(density[: max(1, round(LOWEST * bins))].mean()))
    middles = (np.arange(bins) + 0.5) / bins
    height = np.interp(percentile, middles, density)
    real: Floats = 1 - np.minimum(1.0, rate / np.maximum(height, 1e-12))
    return real


def normal_score(percentiles: Floats) -> Floats:
    """What a standard normal variable has at these percentiles, within about three standard deviations."""
    scores: Floats = ndtri(np.clip(percentiles, 1e-3, 1 - 1e-3))
    return scores


def opinions_of_pairs(families: Sequence[Family]) -> Floats:
    """Label-free p_real by every two families: [pairs of families, n].

    One family alone mistakes what it does not model for noise, and the mean over families dilutes the best of them. Two
    are weighed by a logistic regression that tells interactions of the log from random pairs.
    """
    return np.stack([_by_two(one, other) for one, other in combinations(families, 2)])


def _by_two(one: Family, other: Family) -> Floats:
    interactions, pairs = (
        np.column_stack([normal_score(getattr(family, name)) for family in (one, other)])
        for name in ("percentiles", "random")
    )
    rng = np.random.default_rng(0)
    size = min(MOST_FITTED, len(interactions), len(pairs))
    weights = _tell_apart(*(rng.permutation(values)[:size] for values in (interactions, pairs)))
    scores, null = interactions @ weights, np.sort(pairs @ weights)
    below, up_to = (np.searchsorted(null, scores, side) for side in ("left", "right"))
    size = max(len(null), 1)
    spread = (below + rng.random(len(scores)) * (up_to - below)) / size  # ties lie anywhere between, as those of noise
    return chance_of_real((below + up_to) / 2 / size, spread)


def _tell_apart(first: Floats, second: Floats) -> Floats:
    """Weights of a logistic regression with an intercept that tells two samples [n, 2] of equal size apart: [2]."""
    from scipy.optimize import minimize

    x = np.column_stack([np.ones(2 * len(first)), np.concatenate([first, second])])
    y = np.repeat([1.0, 0.0], len(first))
    penalty = np.array([1e-6, PENALTY, PENALTY])

    def loss(w: Floats) -> tuple[float, Floats]:
        eta = x @ w
        value = np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * w**2)
        return float(value), x.T @ (expit(eta) - y) + penalty * w

    fitted = minimize(loss, np.array([0.0, 0.5, 0.5]), jac=True, method="L-BFGS-B")
    return np.asarray(fitted.x[1:])
