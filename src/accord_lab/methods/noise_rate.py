"""How much of a log is noise, by a mixture of two Gaussians in the losses of its interactions (SGDL)."""

from __future__ import annotations

import numpy as np

from accord.data.csr import IntArray
from accord_lab.methods.whole_log import Floats, of_each_user

BINS = 512  # losses from 0 to 1 are counted in so many before they are fitted
STEPS = 200
LEAST_VARIANCE = 1e-4


def noise_share(losses: Floats, ptr: IntArray, counts: Floats) -> float:
    """The share of interactions [n] that belong to the Gaussian with the larger mean.

    Losses are first brought to 0 to 1 within each user, the smallest and the largest. Users whose losses are all the
    same tell nothing; where nobody's do, the share is 0.
    """
    low, high = (of_each_user(losses, ptr, reduce) for reduce in (np.minimum, np.maximum))
    tells = high > low
    if not (counts[tells] > 0).any():
        return 0.0
    scaled = (losses[tells] - low[tells]) / (high[tells] - low[tells])
    heights, edges = np.histogram(scaled, BINS, (0.0, 1.0), weights=counts[tells])
    return _upper_share((edges[:-1] + edges[1:]) / 2, heights)


def _upper_share(x: Floats, heights: Floats) -> float:
    """Weight of the upper of two Gaussians that are fitted to points [n], each as often as `heights` says, by EM."""
    whole = heights.sum()
    mean, variance, share = np.array([0.25, 0.75]), np.array([0.05, 0.05]), np.array([0.5, 0.5])
    for _ in range(STEPS):
        logs = np.log(np.maximum(share, 1e-300)) - 0.5 * ((x[:, None] - mean) ** 2 / variance + np.log(variance))
        belongs = np.exp(logs - logs.max(1, keepdims=True))
        belongs *= (heights / belongs.sum(1))[:, None]  # [n, 2]
        size = np.maximum(belongs.sum(0), 1e-12)
        share, mean = size / whole, (belongs * x[:, None]).sum(0) / size
        variance = np.maximum((belongs * (x[:, None] - mean) ** 2).sum(0) / size, LEAST_VARIANCE)
    return float(share[np.argmax(mean)])
