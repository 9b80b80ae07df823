"""The columns that a log may have, which of its columns they are, and their conversion: ids to int64 or string, numbers
to float64."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import ColumnArgument, InputError, shown, unknown

MOST_LISTED = 50  # columns in a sentence

_NAMES = tomllib.loads(resources.files(__package__).joinpath("columns.toml").read_text(encoding="utf-8"))
USUAL_NAMES: dict[str, list[str]] = {role: names.split() for role, names in _NAMES["usual"].items()}
LONE_NAMES = {role: names.split() for role, names in _NAMES["lone"].items()}
GUESSED = tuple(USUAL_NAMES)  # all others are read only where they are named
NO_ID = ("nan", "null", "none", "na", "n/a")  # among integers, whatever the case
NO_TEXT_ID = ("", "NaN", "nan", "null", "NULL", "None")  # among text ids, where Nan and NA may be names
INTEGER = r"^(0|-?[1-9][0-9]{0,17})(\.0+)?$"  # only what prints back as it was written, or with .0: 007 stays text
POINT_ZERO = r"\.0+$"
WITH_COMMA = r"^[+-]?[0-9]+,[0-9,]+$"

Column = Any  # an Arrow array, chunked or not


@dataclass(frozen=True)
class ColumnSpec:
    """What a column of numbers is: everything that reads, keeps or passes on columns goes by this."""

    is_time: bool = False  # seconds since 1970, int64 or float64; the others are float64
    nullable: bool = False  # whether a row may be without
    saved: bool = True  # with a run, so that the run can be updated
    batched: bool = False  # given to the loss with each batch
    default: float | None = None  # of interactions from a part of the data that does not have the column
    limits: tuple[float, float] | None = None
    meaning: str = ""  # of the numbers within the limits, for errors


def _column(**spec: Any) -> Any:
    return field(default=None, metadata={"spec": ColumnSpec(**spec)})


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read. User, item, value and time are guessed from the usual names where they are not
    given; `weight` and `label` are read only where they are.

    >>> import pyarrow as pa
    >>> log = pa.table({"who": ["a", "a", "b", "b"], "what": ["x", "y", "x", "z"], "stars": [5, 3, 4, 1]})
    >>> accord.load(log, columns=accord.Columns(user="who", item="what"), ratios=(1, 0, 0)).train
    Interactions(4 rows of user, item, value)
    """

    user: str | None = None
    item: str | None = None
    value: str | None = _column(nullable=True)
    time: str | None = _column(is_time=True)
    weight: str | None = _column(batched=True, default=1.0, limits=(0, 1e30), meaning="a weight is a number from 0 up")
    label: str | None = _column(
        batched=True, nullable=True, limits=(0, 1), meaning="a label is from 0 (noise) to 1 (real), or empty"
    )

    @classmethod
    def of(cls, given: Columns | Mapping[str, str] | None) -> Columns | None:
        """Columns as they are, or by a mapping: `{"user": "who"}`."""
        if given is None or isinstance(given, Columns):
            return given
        if not isinstance(given, Mapping):
            raise InputError(f"columns is {shown(given)}; write it as {{'user': 'who', 'item': 'what'}}.")
        if odd := [name for name in given if name not in ROLES]:
            raise unknown("key of columns", str(odd[0]), ROLES)
        if not_text := [name for name in given.values() if not isinstance(name, str | None)]:
            raise InputError(f"columns has {shown(not_text[0])} in it; give names, as {{'user': 'who'}}.")
        return cls(**given)

    def names(self) -> dict[str, str]:
        return {role: name for role, name in asdict(self).items() if name is not None}


ROLES = tuple(field.name for field in fields(Columns))
COLUMNS: dict[str, ColumnSpec] = {one.name: one.metadata["spec"] for one in fields(Columns) if one.metadata}
BATCHED = tuple(name for name, spec in COLUMNS.items() if spec.batched)
SAVED = tuple(name for name, spec in COLUMNS.items() if spec.saved)


class ColumnError(InputError):
    """A column with something in it that cannot be read; `problem` says what, without how to fix it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; correct it or name another column.")
        self.problem = problem

    def left_out(self) -> str:
        return f"{self.problem}. The column was only guessed, so it is ignored."


def choose(
    source: str,
    names: Sequence[str],
    given: Columns,
    rule_names: Sequence[str] = (),
    partitions: Collection[str] = (),
    timestamps: Collection[str] = (),
) -> Columns:
    """The column of every role: what was given, else a column that a clean rule names, else the usual names, else for
    times the only column of timestamps.

    Columns that are folders (`partitions`) are not guessed."""
    if not names:
        raise InputError(f"{source} has no columns; give a table of users and items.")
    listing = quoted(names)
    for role, name in given.names().items():
        refuse_repeated(source, [one for one in names if one == name])
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise InputError(
                f"{source} has no column '{name}'{hint}; it has {listing}: correct ", ColumnArgument(role), "."
            )
    taken = list(given.names().values())
    if len(set(taken)) < len(taken):
        raise InputError(f"{source}: the same column was given for two roles; give a different one for each.")
    chosen = asdict(given)
    candidates = [name for name in names if name not in partitions and name not in taken]
    chosen |= {role: chosen[role] or _guess(source, candidates, role) for role in GUESSED}
    moments = [name for name in timestamps if name not in chosen.values()]
    if chosen["time"] is None and len(moments) == 1:
        chosen["time"] = moments[0]
    for role in ("user", "item"):
        if chosen[role] is None:
            hint = "" if any(chosen.values()) else " (a file of text ids without a header line needs one)"
            problem = f"{source}: no {role} column among {listing}; call it '{role}' or give "
            raise InputError(problem, ColumnArgument(role), f"{hint}.")
    named_by_rule = [name for name in rule_names if name in names and name not in chosen.values()]
    if named_by_rule and given.value is None:
        chosen["value"] = named_by_rule[0]
    return Columns(**chosen)


def quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:MOST_LISTED]) + (", …" if len(names) > MOST_LISTED else "")


def _guess(source: str, names: Sequence[str], role: str) -> str | None:
    candidates = [name for name in names if is_usual(role, name)]
    if role in LONE_NAMES and not candidates:
        candidates = [name for name in names if simplified(name) in LONE_NAMES[role]]
        return candidates[0] if len(candidates) == 1 else None
    refuse_repeated(source, candidates)
    if len(candidates) > 1:
        candidates = [name for name in candidates if name != "label"]  # next to a value it is what it says
    if len(candidates) > 1:
        either = " and ".join(f"'{name}'" for name in candidates)
        problem = f"{source}: {either} could each be the {role} column; rename all but the right one, or give "
        raise InputError(problem, ColumnArgument(role), ".")
    return candidates[0] if candidates else None


def refuse_repeated(source: str, names: Sequence[str]) -> None:
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise InputError(f"{source}: {times} columns are named '{name}'; rename all but the one to read.")


def is_usual(role: str, name: str) -> bool:
    return simplified(name) in USUAL_NAMES[role]


def simplified(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def describe(columns: Columns, names: Sequence[str], others: Collection[str] = ()) -> str:
    """The chosen columns, and those that are not used, in one sentence; `others` are used for labels."""
    chosen = columns.names()
    roles = [role for role in ROLES if role in chosen or role in GUESSED]
    sentence = ", ".join(
        f"{role} column '{chosen[role]}'" if role in chosen else f"{role} column none" for role in roles
    )
    unused = [name for name in names if name not in chosen.values() and simplified(name) not in others]
    return sentence + (f"; not used: {quoted(unused)}." if unused else ".")


def decoded(column: Column) -> Column:
    """A column without dictionaries, and with all text in one type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return column.cast(pa.string()) if is_text else column


def ids(source: str, role: str, name: str, column: Column, from_text: bool) -> Column:
    """int64 or string ids, null where there is none. Text of a file (`from_text`) is integer where every id is; a typed
    column keeps its type. What an id becomes depends only on which others there are: distinct ids are enough."""
    refuse_ids(source, role, name, column.type)
    return to_ids(column, from_text, are_integers(column, from_text) is True)


def are_integers(column: Column, from_text: bool) -> bool | None:
    """Whether every id is an int64; None where there are no ids."""
    if from_text:
        column = null_where(pc.equal(column, ""), column)
        integers = pc.match_substring_regex(column, INTEGER)
        if pc.all(pc.or_(integers, _is_gap(column))).as_py() is False:
            return False
        return True if pc.any(integers).as_py() else None
    if pa.types.is_floating(column.type):  # pandas turns integers with gaps into floats
        column = null_where(pc.is_nan(column), column)
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


def to_ids(column: Column, from_text: bool, integers: bool) -> Column:
    """int64 ids where they are integers, else text; null where there is none."""
    if pa.types.is_floating(column.type):
        column = null_where(pc.is_nan(column), column)
    if not integers:
        column = column.cast(pa.string())
        return null_where(pc.is_in(column, value_set=pa.array(NO_TEXT_ID)), column)
    if from_text:
        column = null_where(pc.or_(pc.equal(column, ""), _is_gap(column)), column)
        column = pc.replace_substring_regex(column, POINT_ZERO, "")
    return column.cast(pa.int64())


def _is_gap(column: Column) -> Column:
    """Among integers the word nan is a gap, in capitals or not."""
    return pc.is_in(pc.utf8_lower(column), value_set=pa.array(NO_ID))


def refuse_ids(source: str, role: str, name: str, kind: pa.DataType) -> None:
    if pa.types.is_nested(kind) or "binary" in str(kind):
        raise InputError(f"{source}: {role} column '{name}' holds {kind}; ids must be integers or text.")


def no_id(source: str, role: str, name: str, count: int, first: int) -> InputError:
    rows = "row has" if count == 1 else "rows have"
    return InputError(
        f"{source}: {count} {rows} no {role} id in column '{name}' (first: row {first + 1}); fill or remove them."
    )


def null_where(mask: Column, column: Column) -> Column:
    return pc.if_else(mask, pa.scalar(None, column.type), column)


def values(source: str, name: str, column: Column, start: int = 0, role: str = "value") -> Column:
    """float64, null where the source has nothing or NaN; ColumnError naming the first row that is not a number.
    `start` is the number of rows before this part of the column."""
    numbers = _as_values(source, name, column, start, role)
    spec = COLUMNS[role]
    if spec.limits is not None:
        least, most = spec.limits
        filled = numbers.fill_null(least if spec.nullable else least - 1)
        bad = pc.invert(pc.and_(pc.greater_equal(filled, least), pc.less_equal(filled, most)))
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            given = "nothing" if numbers[row].as_py() is None else shown(numbers[row].as_py())
            problem = f"{source}: {role} column '{name}' has {given} in row {start + row + 1}, and {spec.meaning}"
            raise ColumnError(problem)
    return numbers


def _as_values(source: str, name: str, column: Column, start: int, role: str) -> Column:
    is_text = pa.types.is_string(column.type)
    if pa.types.is_duration(column.type):  # in seconds, as times are
        units = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
        return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), float(units[column.type.unit]))
    try:
        return _without_nan(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        column = trimmed(column) if is_text else column
    try:
        return _without_nan(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = first_bad(column, pa.float64())
        reason = "is not a number"
        if is_text and pc.match_substring_regex(column[row : row + 1], WITH_COMMA)[0].as_py():
            reason += ": write it without a comma, as 1.5 or 1500"
        problem = f"{source}: {role} column '{name}' has {cell(column[row])} in row {start + row + 1}, which {reason}"
        raise ColumnError(problem) from None


def cell(value: pa.Scalar) -> str:
    """A cell as a message quotes it; dates as Arrow writes them, which neither overflows nor needs pandas."""
    if not pa.types.is_temporal(value.type):
        return shown(value.as_py())
    try:
        return str(value.cast(pa.string()).as_py())
    except pa.ArrowException:  # a duration, or an unknown time zone
        return f"a {value.type}"


def _without_nan(column: Column) -> Column:
    missing = pc.is_nan(column)
    return null_where(missing, column) if pc.any(missing).as_py() else column


def trimmed(column: Column) -> Column:
    column = pc.utf8_trim_whitespace(column)
    return null_where(pc.equal(column, ""), column)


def first_bad(column: Column, kind: pa.DataType) -> int:
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
