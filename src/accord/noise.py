"""How well noise is found: labels of which interactions are real against a probability for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from accord.errors import InputError


def auc(scores: npt.ArrayLike, real: npt.ArrayLike) -> float:
    """Probability that a real interaction scores higher than a noisy one; ties count half."""
    values, labels = _checked(scores, real)
    ranks = rankdata(values)
    num_real = int(labels.sum())
    num_noise = len(labels) - num_real
    return float((ranks[labels].sum() - num_real * (num_real + 1) / 2) / (num_real * num_noise))


def average_precision(scores: npt.ArrayLike, noisy: npt.ArrayLike) -> float:
    """Area under the precision-recall curve of finding `noisy` by a high score; equal scores count as one step."""
    values, labels = _checked(scores, noisy)
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)
    hits = np.cumsum(labels[order])[ends]
    precision, recall = hits / (ends + 1), hits / labels.sum()
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def detection(p_real: npt.ArrayLike, real: npt.ArrayLike) -> dict[str, float]:
    """AUC of telling real from noisy interactions, and average precision of finding the noisy ones."""
    values, labels = _checked(p_real, real)
    return {
        "auc": auc(values, labels),
        "average_precision": average_precision(-values, ~labels),
        "noise_rate": float(1 - labels.mean()),
    }


def _checked(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    values: npt.NDArray[Any] = np.asarray(scores, dtype=np.float64)
    marked = np.asarray(labels, dtype=bool)
    if values.shape != marked.shape or np.isnan(values).any():
        raise InputError("detection needs a probability for every labelled interaction.")
    if marked.all() or not marked.any():
        raise InputError("detection needs both real and noisy interactions among the labels.")
    return values, marked
