"""Columns of times -> seconds since 1970: numbers, dates and timestamps, and text in the usual forms of dates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.columns import Column, ColumnError, cell, first_bad, null_where, trimmed

CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATES = (
    *("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y"),  # whole names of months too
)
STAMPS = (
    *("%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S %z UTC"),
    *("%a %b %d %H:%M:%S %z %Y", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT"),
    "%d/%b/%Y:%H:%M:%S %z",
)
FORMS = (*(date + clock for date in DATES for clock in CLOCKS), *STAMPS)  # as strptime has them
LETTERS = {"%Y": "year", "%m": "month", "%d": "day"}
Kind = Any  # what text is read as: a type that Arrow casts it to, or a form of dates
# in the order in which they are tried
KINDS: tuple[Kind, ...] = (
    *(pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    *(pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")),
    *FORMS,
)
FOUR_DIGITS = -61_000_000_000_000_000  # microseconds: years before this were written with two digits
LEAST_SECONDS = 500_000_000  # in 1985
YEARS = (-62_135_596_800, 253_402_300_799)  # seconds: a date lies in the years 1 to 9999


def times(
    source: str, name: str, column: Column, start: int = 0, kinds: Sequence[Kind] = KINDS
) -> tuple[Column, Sequence[Kind]]:
    """int64, or float64 where there are fractions; dates and timestamps become seconds since 1970.

    Text must be of one of `kinds`; those that remain possible for later rows are returned too."""

    def error(row: int, problem: str, why: str = "") -> ColumnError:
        return ColumnError(f"{source}: time column '{name}' {problem} in row {start + row + 1}{why}")

    is_text = pa.types.is_string(column.type)
    if is_text and not column.null_count and (parsed := _parsed(column, kinds[0])) is not None:
        return _checked(_as_times(parsed), error), _left(kinds[0])  # there is usually nothing to trim
    column = trimmed(column) if is_text else column
    if column.null_count:
        raise error(pc.index(pc.is_null(column), True).as_py(), "is empty")
    if not is_text:
        if (seconds := _as_times(column)) is not None:
            return _checked(seconds, error, is_date=pa.types.is_temporal(column.type)), kinds
        wrong = first_bad(column, pa.timestamp("us"))
    else:
        for kind in kinds:
            if (parsed := _parsed(column, kind)) is not None:
                if _is_ambiguous(column, kind, kinds):
                    why = ", where day and month cannot be told apart (write it as 2021-12-31)"
                    raise error(0, f"has {cell(column[0])}", why)
                return _checked(_as_times(parsed), error), _left(kind)
        wrong = max(_first_bad(column, kind) for kind in kinds)
    why = ", which is neither a number nor a date like 2021-12-31 23:59:59"
    if is_text and any(_parsed(column[wrong : wrong + 1], kind) is not None for kind in KINDS):
        why = ", which is a time of another kind than those before it"
    raise error(wrong, f"has {cell(column[wrong])}", why)


def units(numbers: Column) -> set[int]:
    """The units of numbers since 1970 by their size: 0 for seconds, 1 for milliseconds, …; -1 for what is neither."""
    digits = np.log10(np.maximum(np.asarray(numbers, dtype=np.float64), 1) / LEAST_SECONDS)
    return {*np.unique(np.where((digits >= 0) & (digits % 3 < 1), digits // 3, -1)).astype(int).tolist()}


def is_moment(text: str) -> bool:
    """Whether a cell is a date, or a number that is larger than values are: seconds since 1970, or smaller units."""
    with suppress(ValueError):
        return LEAST_SECONDS <= float(text) < math.inf
    return any(_parsed(pa.array([text.strip()]), kind) is not None for kind in KINDS[2:])


def described(kinds: Sequence[Kind]) -> str | None:
    """How dates were read, where another reading of them is possible; None where there is nothing to say."""
    if len(kinds) != 1 or not isinstance(form := kinds[0], str) or "%m" not in form or form.startswith("%Y"):
        return None
    return "-".join(LETTERS[mark] for mark in re.findall("%[a-zA-Z]", form) if mark in LETTERS)


def _is_ambiguous(column: Column, kind: Kind, kinds: Sequence[Kind]) -> bool:
    """Whether all dates are like 02/03/2021, which may be in February or in March."""
    if not isinstance(kind, str) or not kind.startswith("%d") or kind[3:5] != "%m":
        return False
    other = f"%m{kind[2]}%d{kind[5:]}"
    return other in kinds and _parsed(column, other) is not None


def _checked(seconds: Column | None, error: Callable[..., ColumnError], is_date: bool = False) -> Column:
    """Times that can be ordered; ColumnError naming the first that cannot."""
    assert seconds is not None
    if is_date:
        near = pc.and_(pc.greater_equal(seconds, YEARS[0]), pc.less_equal(seconds, YEARS[1]))
        if not pc.all(near).as_py():
            raise error(pc.index(near, False).as_py(), "has a date outside the years 1 to 9999")
    if pa.types.is_floating(seconds.type) and not pc.all(finite := pc.is_finite(seconds)).as_py():
        row = pc.index(finite, False).as_py()
        raise error(row, f"has {seconds[row].as_py()}", ", which is not a point in time")
    return seconds


def _parsed(column: Column, kind: Kind) -> Column | None:
    """Text as what it is read as, if every row is of that kind."""
    if isinstance(kind, pa.DataType):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return None
    if _strptime(column.slice(0, 1), kind).null_count:
        return None
    dates = _strptime(column, kind)
    return None if dates.null_count else dates


def _strptime(column: Column, form: str) -> Column:
    """Text in a form of dates, null where it is not."""
    dates = pc.strptime(column, format=form, unit="us", error_is_null=True)
    return null_where(pc.less(dates.cast(pa.int64()), FOUR_DIGITS), dates) if "%Y" in form else dates


def _first_bad(column: Column, kind: Kind) -> int:
    if isinstance(kind, pa.DataType):
        return first_bad(column, kind)
    return int(pc.index(pc.is_null(_strptime(column, kind)), True).as_py())


def _left(kind: Kind) -> Sequence[Kind]:
    """What later rows may be: after integers, fractions too; after anything else, only the same."""
    return KINDS[:2] if kind == pa.int64() else (kind,)


def _as_times(column: Column) -> Column | None:
    if pa.types.is_integer(column.type):
        beyond = pa.types.is_uint64(column.type) and pc.max(column).as_py() >= 2**63
        return column.cast(pa.float64(), safe=False) if beyond else column.cast(pa.int64())
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return _seconds(column)
    return None


def _seconds(column: Column) -> Column:
    """Whole seconds where all are whole, else microseconds or milliseconds of them. Nothing is multiplied that Arrow
    would let overflow."""
    if pa.types.is_date32(column.type):
        return pa.array(np.asarray(column.cast(pa.int32())).astype(np.int64) * 86_400)
    unit = "ms" if pa.types.is_date(column.type) else column.type.unit
    if unit == "ns":
        unit, column = "us", column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    a_second = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    numbers = np.asarray(column.cast(pa.int64()))
    return pa.array(numbers // a_second if np.all(numbers % a_second == 0) else numbers / a_second)
