"""The chance of being real that follows from percentiles alone, where no label says more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BINS = 50  # of the density of percentiles, where there are enough pairs
LOWEST = 0.1  # share of the percentiles, from the bottom, that hold hardly any real preference

Floats = npt.NDArray[np.float64]


def chance_of_real(percentile: Floats) -> Floats:
    """The probability that an interaction is a real preference, from its percentile, over many interactions.

    Percentiles of noise are uniform, those of real preferences lie high. Their density d rises, so the lowest
    percentiles hold nothing but noise: the height there is the share π of noise, and at any percentile the chance of
    being noise is π / d (the local false discovery rate).
    """
    from scipy.optimize import isotonic_regression

    bins = int(np.clip(len(percentile) // 100, 10, BINS))
    counts, _ = np.histogram(percentile, bins=bins, range=(0.0, 1.0))
    density = isotonic_regression(counts / len(percentile) * bins).x
    rate = min(1.0, float(density[: max(1, round(LOWEST * bins))].mean()))
    middles = (np.arange(bins) + 0.5) / bins
    height = np.interp(percentile, middles, density)
    real: Floats = 1 - np.minimum(1.0, rate / np.maximum(height, 1e-12))
    return real
