"""Times of a log as dates, and the gaps between them."""

from __future__ import annotations

import numpy as np

from accord.auditing.timestamps import format_time, gaps, is_date

DAY = 86_400
START = 1_600_000_000  # 2020-09-13 12:26:40 UTC


def test_seconds_since_1970_are_dates_and_small_numbers_are_not():
    assert is_date(START + np.arange(10))
    assert not is_date(np.arange(10))
    assert not is_date(np.array([]))
    assert not is_date(1000 * (START + np.arange(10)))  # milliseconds


def test_a_time_is_written_as_finely_as_the_log_is_long():
    month, week = START + DAY * np.arange(30), START + DAY * np.arange(7)
    assert format_time(START, month) == "2020-09-13"
    assert format_time(START, week) == "2020-09-13 12:26"
    assert format_time(5.0, np.arange(10.0)) == "5"
    assert format_time(12_345.6, np.arange(10.0)) == "12,346"
    assert format_time(0, month) == "0"  # not a date, though the others are


def test_gaps_come_longest_first():
    assert gaps(np.arange(1000.0)) == []
    assert gaps(np.array([0.0, 1.0, 100.0])) == []  # too few times to say what a gap is
    times = np.concatenate([np.arange(200), 400 + np.arange(200), 1200 + np.arange(200)]).astype(float)
    assert gaps(times) == [(599.0, 1200.0), (199.0, 400.0)]
