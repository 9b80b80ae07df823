"""The usual forms of dates, and times that cannot be."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import accord
from accord.data import times as module
from accord.data.times import FORMS, KINDS, described, times
from accord.errors import InputError

WHEN = [datetime(2010, 12, 1, 8, 26, 30, tzinfo=UTC), datetime(2011, 1, 31, 20, 5, 0, tzinfo=UTC)]


def form_of(kinds: object) -> str | None:
    return described(kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_it_was_written(form: str) -> None:
    text = [when.strftime(form) for when in WHEN]
    seconds, kinds = times("log", "date", pa.array(text))
    assert list(kinds) == [form]
    exact = "%S" in form
    expected = [
        (when if exact else when.replace(second=0) if "%M" in form else when.replace(hour=0, minute=0, second=0))
        for when in WHEN
    ]
    assert seconds.to_pylist() == [int(when.timestamp()) for when in expected]
    again, _ = times("log", "date", pa.array(text), kinds=kinds)
    assert again.equals(seconds)


def test_numbers_need_not_be_padded() -> None:
    seconds, kinds = times("log", "date", pa.array(["12/1/2010 8:26", "12/13/2010 14:05"]))
    assert seconds.to_pylist() == [1291191960, 1292249100]
    assert form_of(kinds) == "month-day-year"
    assert form_of((FORMS[0],)) is None  # the year comes first: nothing to be said
    assert form_of(KINDS[:2]) is None


def test_day_and_month_must_be_told_apart() -> None:
    with pytest.raises(
        InputError, match=r"has '01/02/2011' in row 1, where day and month cannot be told apart .write it as 2021"
    ):
        times("log", "date", pa.array(["01/02/2011", "02/03/2011"]))
    seconds, _ = times("log", "date", pa.array(["01/02/2011", "13/03/2011"]))
    assert seconds[0].as_py() == 1296518400  # the first of February
    seconds, _ = times("log", "date", pa.array(["01.02.2011", "02.03.2011"]))  # with points the day comes first
    assert seconds[0].as_py() == 1296518400


def test_a_year_of_two_digits_is_no_year() -> None:
    with pytest.raises(InputError, match="neither a number nor a date"):
        times("log", "date", pa.array(["31/12/10", "1/12/10"]))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([-1, 90061], pa.timestamp("s")), [-1, 90061]),
        (pa.array([1500, -500], pa.timestamp("ms")), [1.5, -0.5]),
        (pa.array([1_500_000, 2_000_000], pa.timestamp("us", tz="UTC")), [1.5, 2.0]),
        (pa.array([1_500_000_999, 2_000_000_000], pa.timestamp("ns")), [1.5, 2.0]),
        (pa.array([1, -1], pa.date32()), [86_400, -86_400]),
        (pa.array([86_400_000, 0], pa.date64()), [86_400, 0]),
        (pa.array([2**63, 5], pa.uint64()), [2.0**63, 5.0]),
    ],
)
def test_types_of_time(column: pa.Array, expected: list[float]) -> None:
    assert times("log", "when", column)[0].to_pylist() == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, 2**61], pa.timestamp("s")),
        pa.array([5, -(2**60)], pa.timestamp("ms", tz="UTC")),
        pa.array([5, 2**31 - 1], pa.date32()),
        pa.array([0, 86_400_000 * 2**36], pa.date64()),
        pa.array([5, 2**62], pa.timestamp("us")),
    ],
)
def test_a_time_out_of_range_is_named(column: pa.Array) -> None:
    with pytest.raises(InputError, match="time column 'when' has a date outside the years 1 to 9999 in row 12;"):
        times("log", "when", column, start=10)


@pytest.mark.parametrize(
    "column", [pa.array([1, 2], pa.duration("s")), pa.array([1, 2], pa.time64("us")), [True, False]]
)
def test_what_is_no_time(column: pa.Array) -> None:
    with pytest.raises(InputError, match="neither a number nor a date"):
        times("log", "when", pa.array(column))


def test_nanoseconds_need_no_pandas() -> None:
    code = """
import sys
class NoPandas:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas())
import pyarrow as pa
from accord.data.columns import values
try:
    values("log", "v", pa.array([1], pa.timestamp("ns")))
except ValueError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "has 1970-01-01 00:00:00.000000001 in row 1, which is not a number" in found.stdout, found.stderr


def test_places_in_the_list_of_kinds_are_kept_by_stores() -> None:
    assert KINDS[:4] == (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    assert len(set(map(str, module.KINDS))) == len(module.KINDS)


@pytest.mark.parametrize(
    "cells",
    [
        ("2020-09-15T20:36:08", "2020-09-15T20:36:09", "1600202168"),
        ("1600202168", "1600202169.5", "2020-09-15"),
        ("2020-09-15", "2020-09-16", "15/09/2020"),
        ("2020-09-15T20:36:08", "2020-09-16T20:36:08", "2020-09-15T20:36:08Z"),
    ],
)
def test_times_of_mixed_kinds_are_said_to_be(cells: tuple[str, ...]) -> None:
    said = rf"has '{cells[2]}' in row 3, which is a time of another kind than those before it; correct it"
    with pytest.raises(InputError, match=said):
        times("log", "ts", pa.array(cells))
    kinds = times("log", "ts", pa.array(cells[:2]))[1]
    with pytest.raises(InputError, match=said):
        times("log", "ts", pa.array(cells[2:]), start=2, kinds=kinds)


@pytest.mark.parametrize("typed", [True, False])
def test_seconds_and_milliseconds_in_one_column(typed: bool, tmp_path: Path) -> None:
    seconds = 1_600_000_000 + 3_600 * np.random.default_rng(0).permutation(100)
    rows = {"user": np.arange(100) % 10, "item": np.arange(100) // 10}
    mixed = pa.table(rows | {"ts": np.where(np.arange(100) < 60, seconds, seconds * 1000)})
    sources: list[Any] = [mixed]
    if not typed:
        pyarrow.csv.write_csv(mixed, tmp_path / "log.csv")
        sources = [tmp_path / "log.csv"]
    for source in sources:
        problem = "time column 'ts' mixes seconds and milliseconds, or other units"
        with pytest.raises(InputError, match=problem):
            accord.load(source, columns={"time": "ts"})
        notes = accord.load(source).notes
        assert any(f"{problem}. The column was only guessed, so it is ignored." in note for note in notes)
    for unit in (1, 1000, 10**6, 10**9):
        assert accord.load(pa.table(rows | {"ts": seconds * unit})).train.has_time
    counted = np.where(np.arange(100) < 60, seconds, np.arange(100))  # whatever this is, it is no mix of units
    assert accord.load(pa.table(rows | {"ts": counted})).train.has_time


@pytest.mark.parametrize("unit", [1, 1000])
def test_times_in_the_future_are_noted(unit: int) -> None:
    now = int(time.time())
    for latest, is_noted in (now, False), (now + 10**6, True):
        moments = [moment * unit for moment in (10**9, latest, 10**9 + 5, 10**9)]
        rows = {"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "z"], "ts": moments}
        sentence = f"time column 'ts' has times in the future, up to {latest * unit};"
        assert any(sentence in note for note in accord.load(pa.table(rows), ratios=(1, 0, 0)).notes) == is_noted
