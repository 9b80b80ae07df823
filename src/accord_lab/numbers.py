"""Numbers as the pages write them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def standard_deviation(values: npt.ArrayLike) -> float:
    """Over seeds or draws; 0 for a single one."""
    array = np.asarray(values, dtype=float)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


def mean_sd(values: npt.ArrayLike, digits: int = 4) -> str:
    """The mean of several runs, with their standard deviation if there are at least two."""
    array = np.asarray(values, dtype=float)
    return f"{array.mean():.{digits}f}" + (f" ± {array.std(ddof=1):.{digits}f}" if array.size > 1 else "")


def mean_sd_or_none(values: npt.ArrayLike | None, digits: int = 4) -> str | None:
    return None if values is None else mean_sd(values, digits)


def short(value: float, digits: int = 4) -> str:
    """A number without its leading zero, and with a real minus sign."""
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + (text[1:] if text.startswith("0.") else text)


def percent(value: float, digits: int = 1) -> str:
    """A change, with its sign."""
    return f"{100 * value:+z.{digits}f}%".replace("-", "−")


def p_value(p: float) -> str:
    return "< .0001" if p < 1e-4 else short(p, 4 if p < 0.01 else 2)


def span(values: Iterable[float], digits: int = 4) -> str:
    """The smallest to the largest; one number if both round to the same."""
    ordered = sorted(values)
    low, high = short(ordered[0], digits), short(ordered[-1], digits)
    return low if low == high else f"{low} to {high}"


def percent_span(values: Iterable[float]) -> str:
    ordered = sorted(values)
    return f"{percent(ordered[0])} to {percent(ordered[-1])}"
