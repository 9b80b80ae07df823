"""How well p_real separates real interactions from noise, measured with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accord.data.csr import Bools, Floats
from accord.data.interactions import Interactions
from accord.errors import InputError

BINS = 10
REAL_FROM, NOISE_TO = 4, 2  # ratings up to 5; those in between have no label


def labels(interactions: Interactions) -> tuple[Bools, Bools] | None:
    """Masks of the interactions that their value labels, and of the real ones among those; None without such values.
    Values 0 and 1 are labels (as in the built-in data). In ratings up to 5, 4 and 5 are real, 1 and 2 are noise."""
    if not interactions.has_value:
        return None
    values = interactions.column("value")
    distinct = np.unique(values)
    if set(distinct) <= {0, 1}:
        labelled, real = np.ones(len(values), dtype=bool), values == 1
    elif distinct[0] >= 0 and distinct[-1] <= 5:
        labelled, real = (values >= REAL_FROM) | (values <= NOISE_TO), values >= REAL_FROM
    else:
        return None
    real = real[labelled]
    return (labelled, real) if real.any() and not real.all() else None


def auc(scores: npt.ArrayLike, real: npt.ArrayLike) -> float:
    """Probability that a real interaction scores higher than a noisy one. Ties count half."""
    values, marked = _checked(scores, real)
    from scipy.stats import mannwhitneyu  # slow to import

    real_scores, noise_scores = values[marked], values[~marked]
    above = mannwhitneyu(real_scores, noise_scores, method="asymptotic").statistic
    return float(above / (len(real_scores) * len(noise_scores)))


def calibration(p_real: npt.ArrayLike, real: npt.ArrayLike) -> dict[str, Any]:
    """How close p_real is to the share of real interactions among those with that p_real.
    `brier` is the mean squared error, `ece` the expected calibration error over ten equally wide bins, `reliability`
    has for each bin its count, mean p_real and share of real interactions."""
    values, marked = _checked(p_real, real)
    if values.min() < 0 or values.max() > 1:
        raise InputError("calibration needs probabilities: give numbers from 0 to 1.")
    bins = np.minimum((values * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    sums = [np.bincount(bins, weights=weights, minlength=BINS) for weights in (values, marked.astype(np.float64))]
    mean, share = (total / np.maximum(count, 1) for total in sums)
    return {
        "brier": float(np.mean((values - marked) ** 2)),
        "ece": float(np.sum(count * np.abs(mean - share)) / len(values)),
        "reliability": {"count": count.tolist(), "mean": mean.tolist(), "real": share.tolist()},
    }


def _checked(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Bools]:
    values: npt.NDArray[Any] = np.asarray(scores, dtype=np.float64)
    marked = np.asarray(labels, dtype=bool)
    if values.shape != marked.shape or np.isnan(values).any():
        raise InputError("detection needs a probability for every labelled interaction.")
    if marked.all() or not marked.any():
        raise InputError("detection needs both real and noisy interactions among the labels.")
    return values, marked
