"""Times of a log: seconds since 1970 as dates, and long gaps without interactions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST, LAST = 631_152_000, 4_102_444_800  # 1990 and 2100: numbers in between are taken for dates
MANY_TIMES = 50  # a gap is longer than this many mean distances of two interactions
SHARE = 0.02  # of the time from first to last: anything shorter is not a gap
SHOWN = 20

Floats = npt.NDArray[np.float64]


def is_date(times: npt.NDArray[Any]) -> bool:
    """Whether the times are seconds since 1970, judged by their median."""
    return len(times) > 0 and FIRST < float(np.median(times)) < LAST


def format_time(time: float, times: npt.NDArray[Any]) -> str:
    """A time of `times` as text: a date where they are dates, with hours for a short log."""
    if not is_date(times) or not FIRST < time < LAST:
        return f"{time:,.0f}"
    form = "%Y-%m-%d %H:%M" if float(times.max() - times.min()) < 14 * 86400 else "%Y-%m-%d"
    return datetime.fromtimestamp(time, UTC).strftime(form)


def gaps(times: npt.NDArray[Any]) -> list[tuple[float, float]]:
    """Sorted times -> the long gaps between them, longest first."""
    if len(times) < 100:
        return []
    apart = np.diff(times)
    span = float(times[-1] - times[0])
    long = np.flatnonzero(apart > max(SHARE * span, MANY_TIMES * span / len(times)))
    long = long[np.argsort(-apart[long], kind="stable")][:SHOWN]
    return [(float(times[place]), float(times[place + 1])) for place in long]
