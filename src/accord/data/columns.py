"""Which column is which, and its conversion: ids to int64 or string, values to float64, times to seconds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import InputError, shown

ROLES = ("user", "item", "value", "time", "weight", "label")
GUESSED = ("user", "item", "value", "time")  # roles that are guessed, and named whether a log has them or not
MOST_LISTED = 50  # columns in a sentence

# Compared without case and punctuation, so `userid` stands for user_id, userId and "User ID" too.
USUAL_NAMES = {
    "user": """user userid uid visitor visitorid customer customerid customerno customernumber cust custid client
        clientid member memberid reviewer reviewerid account accountid buyer buyerid shopper shopperid person personid
        viewer viewerid reader readerid listener listenerid""",
    "item": """item itemid iid product productid movie movieid article articleid sku skuid asin book bookid isbn song
        songid track trackid artist artistid video videoid film filmid news newsid business businessid content
        contentid game gameid anime animeid recipe recipeid stockcode document documentid docid podcast podcastid""",
    "value": """rating ratings value score scores stars star overall dwell dwelltime activetime weight count plays
        playcount watchratio watchtime quantity strength label preference""",
    "time": """timestamp timestamps time ts date datetime eventtime eventdate unixtime unixreviewtime reviewtime
        createdat createdtime orderdate invoicedate purchasedate""",
}
RANGES = {
    "weight": (0.0, 1e30, "a weight is a number from 0 up"),
    "label": (0.0, 1.0, "a label is a number from 0 (noise) to 1 (real), or empty"),
}
NO_ID = ("nan", "null", "none", "na", "n/a")
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # only what prints back as it was written: 007 stays text
TEXT_TIMES = (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))

Column = Any  # an Arrow array, chunked or not


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; None is guessed from the usual names, but for `weight` and `label`: a log has those
    only where it is said."""

    user: str | None = None
    item: str | None = None
    value: str | None = None
    time: str | None = None
    weight: str | None = None
    label: str | None = None


def choose(source: str, found: Sequence[str], given: Columns, rule_names: Sequence[str] = ()) -> Columns:
    """Settle every role: what was given, else a column that a clean rule names, else the usual names."""
    listing = ", ".join(f"'{name}'" for name in found[:MOST_LISTED]) + (", …" if len(found) > MOST_LISTED else "")
    for role, name in _given(given):
        if found.count(name) != 1:
            near = difflib.get_close_matches(name, found, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            times = "no column" if name not in found else "more than one column"
            raise InputError(f"{source} has {times} '{name}'{hint}; it has {listing}: correct --{role}-col.")
    taken = [name for _, name in _given(given)]
    if len(set(taken)) < len(taken):
        raise InputError(
            f"{source}: one column was given for two roles; give --user-col, --item-col, … different names."
        )
    chosen = {role: getattr(given, role) for role in ROLES}
    chosen |= {role: chosen[role] or _guess(source, found, role, taken) for role in GUESSED}
    for role in ("user", "item"):
        if chosen[role] is None:
            raise InputError(
                f"{source}: no {role} column among {listing}; give --{role}-col NAME"
                " (a file of text ids without a header line needs one)."
            )
    named_by_rule = [name for name in rule_names if name in found and name not in chosen.values()]
    if named_by_rule and given.value is None:
        chosen["value"] = named_by_rule[0]
    return Columns(**chosen)


def _given(columns: Columns) -> list[tuple[str, str]]:
    return [(field.name, name) for field in fields(columns) if (name := getattr(columns, field.name)) is not None]


def _guess(source: str, found: Sequence[str], role: str, taken: Sequence[str]) -> str | None:
    candidates = [name for name in found if name not in taken and is_usual(role, name)]
    if len(candidates) > 1:
        candidates = [name for name in candidates if name != "label"]  # beside a value it is what it says
    if len(candidates) > 1:
        either = " and ".join(f"'{name}'" for name in candidates)
        raise InputError(f"{source}: {either} could each be the {role} column; say which with --{role}-col NAME.")
    return candidates[0] if candidates else None


def is_usual(role: str, name: str) -> bool:
    return re.sub(r"[\W_]", "", name.lower()) in USUAL_NAMES[role].split()


def describe(columns: Columns) -> str:
    """The chosen columns in one sentence."""
    names = {role: getattr(columns, role) for role in ROLES}
    chosen = [
        f"{role} column '{name}'" if name else f"{role} column none"
        for role, name in names.items()
        if name or role in GUESSED
    ]
    return f"{', '.join(chosen)}; give --user-col, --item-col, --value-col or --time-col to change."


def plain(column: Column) -> Column:
    """Dictionaries decoded, and all text in one type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if _is_text(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def ids(source: str, role: str, name: str, column: Column, from_text: bool) -> Column:
    """`as_ids`, with an InputError naming the first row that has none."""
    column = as_ids(source, role, name, column, from_text)
    if column.null_count:
        raise no_id(source, role, name, column.null_count, pc.index(pc.is_null(column), True).as_py())
    return column


def as_ids(source: str, role: str, name: str, column: Column, from_text: bool) -> Column:
    """int64 or string ids, null where there is none. Text of a file (`from_text`) is integer where every id is; a typed
    column keeps its type. What an id becomes depends only on which others there are: distinct ids are enough."""
    refuse_ids(source, role, name, column.type)
    return to_ids(column, from_text, are_whole(column, from_text) is True)


def are_whole(column: Column, from_text: bool) -> bool | None:
    """Whether every id is an int64; None where there is none. A column is whole where no part of it is not, and some
    part is."""
    if from_text:
        column = _null_where(pc.equal(column, ""), column)
        whole = pc.match_substring_regex(column, INTEGER)
        if pc.all(pc.or_(whole, _is_gap(column))).as_py() is False:
            return False
        return True if pc.any(whole).as_py() else None
    if pa.types.is_floating(column.type):  # pandas turns integers with gaps into floats
        column = _null_where(pc.is_nan(column), column)
        if pc.all(pc.equal(pc.floor(column), column)).as_py() is False:
            return False
    elif not pa.types.is_integer(column.type):
        return False
    if column.null_count == len(column):
        return None
    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:  # beyond int64
        return False
    return True


def to_ids(column: Column, from_text: bool, whole: bool) -> Column:
    """int64 ids where they are whole, else text; null where there is none."""
    if pa.types.is_floating(column.type):
        column = _null_where(pc.is_nan(column), column)
    if not whole:
        column = column.cast(pa.string())
        return _null_where(pc.equal(column, ""), column)
    if from_text:
        column = _null_where(pc.or_(pc.equal(column, ""), _is_gap(column)), column)
    return column.cast(pa.int64())


def _is_gap(column: Column) -> Column:
    """Among integers the word nan is a gap; among text ids it may be the name of a user."""
    return pc.is_in(pc.utf8_lower(column), value_set=pa.array(NO_ID))


def refuse_ids(source: str, role: str, name: str, kind: pa.DataType) -> None:
    if pa.types.is_nested(kind) or "binary" in str(kind):
        raise InputError(f"{source}: {role} column '{name}' holds {kind}; ids must be integers or text.")


def no_id(source: str, role: str, name: str, count: int, first: int) -> InputError:
    rows = "row has" if count == 1 else "rows have"
    return InputError(
        f"{source}: {count} {rows} no {role} id in column '{name}' (first: row {first + 1}); fill or remove them."
    )


def _null_where(mask: Column, column: Column) -> Column:
    return pc.if_else(mask, pa.scalar(None, column.type), column)


def values(source: str, name: str, column: Column, start: int = 0, role: str = "value") -> Column:
    """float64, null where the source has nothing or NaN; InputError naming the first row that is not a number.

    `start` is the number of rows before this part of the column."""
    found = _as_values(source, name, column, start, role)
    if role in RANGES:
        least, most, wanted = RANGES[role]
        filled = found.fill_null(least if role == "label" else -1)  # a label may be unknown, a weight may not
        bad = pc.invert(pc.and_(pc.greater_equal(filled, least), pc.less_equal(filled, most)))
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            given = "nothing" if found[row].as_py() is None else shown(found[row].as_py())
            raise InputError(
                f"{source}: {role} column '{name}' has {given} in row {start + row + 1}; {wanted}: correct it or give "
                f"another --{role}-col."
            )
    return found


def _as_values(source: str, name: str, column: Column, start: int, role: str) -> Column:
    text = pa.types.is_string(column.type)
    try:
        return _without_nan(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        column = _trimmed(column) if text else column
    try:
        return _without_nan(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = _first_bad(column, pa.float64())
        raise InputError(
            f"{source}: {role} column '{name}' has {shown(column[row].as_py())} in row {start + row + 1}, which is not"
            f" a number; correct it or give another --{role}-col."
        ) from None


def _without_nan(column: Column) -> Column:
    missing = pc.is_nan(column)
    return _null_where(missing, column) if pc.any(missing).as_py() else column


def times(
    source: str, name: str, column: Column, start: int = 0, kinds: Sequence[pa.DataType] = TEXT_TIMES
) -> tuple[Column, Sequence[pa.DataType]]:
    """int64, or float64 where there are fractions; dates and timestamps become seconds since 1970.

    Text must be of one of `kinds`; those that remain possible for later rows are returned too."""
    if pa.types.is_string(column.type):
        if not column.null_count and (parsed := _parsed(column, kinds[:1])) is not None:
            return _finite(source, name, _as_times(parsed), start), _left(
                parsed.type
            )  # there is usually nothing to trim
        column = _trimmed(column)
    if column.null_count:
        first = start + pc.index(pc.is_null(column), True).as_py() + 1
        raise InputError(f"{source}: time column '{name}' is empty in row {first}; fill it or give another --time-col.")
    if not pa.types.is_string(column.type):
        if (seconds := _as_times(column)) is not None:
            return _finite(source, name, seconds, start), kinds
    elif (parsed := _parsed(column, kinds)) is not None:
        return _finite(source, name, _as_times(parsed), start), _left(parsed.type)
    row = max(_first_bad(column, kind) for kind in kinds)
    raise InputError(
        f"{source}: time column '{name}' has {shown(column[row].as_py())} in row {start + row + 1}, which is neither a"
        " number nor a date like 2021-12-31 23:59:59; correct it or give another --time-col."
    )


def _finite(source: str, name: str, times: Column, start: int) -> Column:
    """Times that can be ordered; InputError naming the first that cannot."""
    if pa.types.is_floating(times.type) and not pc.all(finite := pc.is_finite(times)).as_py():
        row = pc.index(finite, False).as_py()
        raise InputError(
            f"{source}: time column '{name}' has {times[row].as_py()} in row {start + row + 1}, which is not a point"
            " in time; correct it or give another --time-col."
        )
    return times


def _parsed(column: Column, kinds: Sequence[pa.DataType]) -> Column | None:
    """Text in the first of the kinds that every row has."""
    for kind in kinds:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _left(kind: pa.DataType) -> Sequence[pa.DataType]:
    """What later rows may be: after integers, fractions too; after anything else, only the same."""
    return TEXT_TIMES[:2] if kind == pa.int64() else (kind,)


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
    zone = getattr(column.type, "tz", None)
    micros = np.asarray(column.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64()))
    whole = bool(np.all(micros % 1_000_000 == 0))
    return pa.array(micros // 1_000_000 if whole else micros / 1e6)


def _trimmed(column: Column) -> Column:
    column = pc.utf8_trim_whitespace(column)
    return _null_where(pc.equal(column, ""), column)


def _first_bad(column: Column, kind: pa.DataType) -> int:
    """First row that does not cast, by halving: a few casts in all."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column.slice(low, middle - low).cast(kind)
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return low
