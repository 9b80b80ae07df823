"""Rules on the columns of a log: which interactions are real preferences, and which are noise.

A condition is `NAME OP NUMBER`, as `rating>=4`; several are joined by `and` or a comma."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import columns as col
from accord.data.interactions import Interactions
from accord.errors import Argument, ColumnArgument, InputError, shown

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
CONDITION = re.compile(r"\s*(?P<name>[^=!<>]+?)\s*(?P<op>>=|<=|!=|==?|>|<)\s*(?P<value>\S(.*\S)?)\s*", re.DOTALL)
OPPOSITE = {">=": "<", "<": ">=", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}
MOST_LEVELS = 20  # of a scale of ratings below which 0 stands for no rating; counts and seconds have more
LEAST_SHARE = 0.01  # of the rows, for a value that may be a code
UNKNOWN = "; unknown "  # what stands in a rule before the values that say nothing
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
EVENT_NAMES = "event eventtype eventname type action actiontype behavior behaviour behaviortype interactiontype kind"

Floats = npt.NDArray[np.float64]


class Condition(NamedTuple):
    name: str
    op: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition | None:
        match = CONDITION.fullmatch(text)
        if match is None or not match["name"].strip():
            return None
        return cls(match["name"], "==" if match["op"] == "=" else match["op"], match["value"])

    def holds(self, columns: Mapping[str, Floats]) -> Floats:
        """1 where it holds, 0 where it does not, NaN where the column is empty."""
        column = columns[self.name]
        return np.where(np.isnan(column), np.nan, OPERATORS[self.op](column, float(self.value)))


def parse_conditions(text: str) -> tuple[Condition, ...] | str:
    """The conditions on numbers in a text, or the part of it that is none."""
    conditions = []
    for part in re.split(r",|\band\b", text):
        condition = Condition.parse(part)
        if condition is None or not NUMBER.fullmatch(condition.value):
            return part
        conditions.append(condition)
    return tuple(conditions)


def _all_hold(conditions: Sequence[Condition], columns: Mapping[str, Floats]) -> Floats:
    """1 where every condition holds, 0 where one does not, NaN where that is unknown."""
    each = np.stack([condition.holds(columns) for condition in conditions])
    return np.where((each == 0).any(0), 0.0, np.where(np.isnan(each).any(0), np.nan, 1.0))


@dataclass(frozen=True)
class LabelRule:
    """Real where all conditions hold, noise where they do not; with `noise`, noise only where those hold.
    A column that is empty says nothing, so the label is unknown unless another condition fails already."""

    text: str
    real: tuple[Condition, ...]
    noise: tuple[Condition, ...] = ()
    unknown: tuple[float, ...] = ()  # values that say nothing, as an empty cell

    @classmethod
    def parse(cls, text: str) -> LabelRule | None:
        """`rating>=4`, or `rating>=4; rating<=2` where what lies between is unknown; `rating>=4; unknown -1` where a
        rating of -1 says nothing. None: this is no rule."""
        conditions, said, unknown = text.partition(UNKNOWN)
        values = [float(value) for value in unknown.split(",") if NUMBER.fullmatch(value.strip())]
        sides = [parse_conditions(side) for side in conditions.split(";")]
        rules = [side for side in sides if not isinstance(side, str)]
        if len(rules) == len(sides) <= 2 and len(values) == len(unknown.split(",")) * bool(said):
            real, noise = (*rules, ())[:2]
            return cls(text, real, noise, tuple(values))
        if words := re.search(r"=\s*([A-Za-z]\w*)", text):
            how = Argument("events", f"{words[1]}=1")
            raise InputError(f"labels {shown(text)}: a rule compares numbers; for a column of words give ", how, ".")
        if re.search(r"[<>=]", text):
            raise InputError(f"labels {shown(text)}: write a rule like 'rating>=4' or 'rating>=4; rating<=2'.")
        return None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(condition.name for condition in (*self.real, *self.noise)))

    def labels(self, columns: Mapping[str, Floats]) -> Floats:
        columns = {name: np.where(np.isin(values, self.unknown), np.nan, values) for name, values in columns.items()}
        real = _all_hold(self.real, columns)
        if not self.noise:
            return real
        noise = _all_hold(self.noise, columns)
        return np.where(real == 1, np.where(noise == 1, 0.5, 1.0), np.where(noise == 1, 0.0, np.nan))

    def refuse_codes(self, name: str, values: Floats, labels: Floats) -> None:
        """Ask about a value that may stand for "not rated", if the rule gives it a label and has no bound near it."""
        scale, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        if len(self.names) == 1 and (absent := [one for one in self.unknown if one not in scale]):
            raise InputError(
                f"unknown {absent[0]:g}: no row has this {name}; give a value that occurs, or leave it out."
            )
        code, nearest = code_in(scale)
        rows = int(counts[scale == code].sum())
        given = labels[(values == code) & ~np.isnan(labels)]
        bounds = [float(one.value) for one in (*self.real, *self.noise) if one.name == name]
        low, high = sorted((code, nearest))
        if not len(given) or rows < LEAST_SHARE * len(values) or any(low <= bound <= high for bound in bounds):
            return
        side, meaning = (0, "real") if given[0] == 1 else (1, "noise")
        problem = (
            f"labels {shown(self.text)} make {name} {code:g} {meaning}, in {rows:,} rows ({rows / len(values):.0%})"
        )
        sides = [side.strip() for side in self.text.split(";")]
        if len(sides) == 1:
            if len(self.real) > 1:
                raise InputError(
                    f"{problem}; if {code:g} means not rated, leave the column empty there; if it is a rating, add "
                    f"'and {name}{'>=' if code < nearest else '<='}{code:g}' to the rule."
                )
            sides.append(f"{name}{OPPOSITE[self.real[0].op]}{self.real[0].value}")
        without, rated = (
            "; ".join(one + f" and {name}{op}{code:g}" * (place == side) for place, one in enumerate(sides))
            for op in ((">", ">=") if code < nearest else ("<", "<="))
        )
        raise InputError(
            f"{problem}; if {code:g} means not rated, give ", Argument("labels", without), "; if it is a rating, give ",
            Argument("labels", rated), ".",
        )  # fmt: skip


def code_in(scale: Floats) -> tuple[float, float]:
    """A value that stands apart from a scale of ratings, as codes for "not rated" do, and the nearest rating; NaN where
    there is none. 0 or less before ratings above it, or 9, 99, … as far beyond the scale as it is long."""
    if len(scale) < 4:  # thumbs are no scale
        return np.nan, np.nan
    low, lowest, highest, high = scale[0], scale[1], scale[-2], scale[-1]
    if (low < 0 <= lowest and lowest - low >= 1) or (low == 0 and lowest >= 0.5 and len(scale) <= MOST_LEVELS + 1):
        return float(low), float(lowest)
    if set(f"{high:g}") == {"9"} and high - highest >= highest - low:
        return float(high), float(highest)
    return np.nan, np.nan


class CleanRule(LabelRule):
    """Conditions on the value or the time that a real preference meets, all of them: `value>=5`, `dwell>10`."""

    @classmethod
    def parse(cls, text: str) -> CleanRule:
        conditions = parse_conditions(text)
        if isinstance(conditions, str):
            raise InputError(
                f"clean rule {shown(text)}: {shown(conditions)} is not NAME OP NUMBER; write it like 'value>=5' or"
                " 'value>=4 and value<=5'."
            )
        return cls(text, conditions)

    def mask(self, interactions: Interactions) -> npt.NDArray[np.bool_]:
        """True where every condition holds; a missing value meets no condition."""
        return np.asarray(self.labels({name: self._column(interactions, name) for name in self.names}) == 1)

    def _column(self, interactions: Interactions, name: str) -> npt.NDArray[Any]:
        present = [role for role in ("value", "time") if role in interactions.names]
        for role in present:
            if name in (role, interactions.source_name(role)):
                return interactions.column(role)
        listing = ", ".join(f"{role} ('{interactions.source_name(role)}')" for role in present)
        raise InputError(
            f"clean rule {shown(self.text)} names '{name}', but the data has {listing or 'neither value nor time'}; ",
            *("give ", ColumnArgument("value"), " or ", ColumnArgument("time"), ", or change the rule."),
        )


@dataclass(frozen=True)
class EventRule:
    """Labels by the kind of event: `view=?,cart=0.7,buy=1`, in the usual column or in one named before a colon."""

    text: str
    column: str | None
    kinds: Mapping[str, float]  # NaN: unknown

    @classmethod
    def parse(cls, text: str) -> EventRule:
        column, colon, rest = text.rpartition(":")
        kinds = {}
        for part in rest.split(","):
            kind, equals, label = (piece.strip() for piece in part.partition("="))
            try:
                number = np.nan if label == "?" else float(label)
            except ValueError:
                number = -1.0
            if not equals or not kind or not (np.isnan(number) or 0 <= number <= 1):
                raise InputError(
                    f"events {shown(text)}: {shown(part)} is not KIND=LABEL; write it like 'view=?,cart=0.7,buy=1',"
                    " with labels from 0 (noise) to 1 (real) or ? (unknown)."
                )
            kinds[kind] = number
        return cls(text, column.strip() if colon else None, kinds)

    def column_in(self, source: str, names: Sequence[str]) -> str:
        if self.column is not None:
            return require_column(source, self.column, names, "events")
        usual = [name for name in names if col.simplified(name) in EVENT_NAMES.split()]
        if len(usual) != 1:
            several = " and ".join(f"'{name}'" for name in usual) or "none"
            raise InputError(
                f"{source}: of the usual names for a column of events it has {several}; name the column before a colon:"
                f" 'COLUMN:{self.text}'."
            )
        return usual[0]

    def labels(self, source: str, name: str, column: Any) -> Floats:
        kinds = col.decoded(column).cast(pa.string()).dictionary_encode()
        present = [str(kind).strip() for kind in kinds.dictionary.to_pylist()]
        if missing := [kind for kind in present if kind not in self.kinds]:
            raise InputError(
                f"{source}: column '{name}' has events of kind {shown(missing[0])}, which the rule does not name; add"
                f" {missing[0]}=?, or a label for it."
            )
        labels = np.array([*(self.kinds[kind] for kind in present), np.nan])
        return np.asarray(labels[np.asarray(kinds.indices.fill_null(len(present)))])


def require_column(source: str, name: str, names: Sequence[str], option: str) -> str:
    if name not in names:
        missing = f"{source} has no column '{name}', which the {option} name"
        raise InputError(f"{missing}; it has {col.quoted(names)}: correct the {option}.")
    return name
