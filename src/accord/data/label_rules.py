"""What says that an interaction is real or noise: a rule on columns, or the kind of event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import columns as col
from accord.data.split import CONDITION, JOINT, OPERATORS
from accord.errors import InputError, shown

EVENT_NAMES = "event eventtype eventname type action actiontype behavior behaviour behaviortype interactiontype kind"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """Real where all conditions hold, noise where they do not; with `noise`, noise only where those hold.

    A column that is empty says nothing, so that the label is unknown unless another condition fails already.
    """

    text: str
    real: tuple[tuple[str, str, float], ...]
    noise: tuple[tuple[str, str, float], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Rule | None:
        """`rating>=4`, or `rating>=4; rating<=2` where what lies between is unknown. None: this is no rule."""
        sides = [_conditions(side) for side in text.split(";")]
        found = [side for side in sides if side is not None]
        if len(found) < len(sides) or len(found) > 2:
            if re.search(r"[<>=]", text):
                raise InputError(f"labels {shown(text)}: write a rule like 'rating>=4' or 'rating>=4; rating<=2'.")
            return None
        return cls(text, *found)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _, _ in (*self.real, *self.noise)))

    def labels(self, columns: Mapping[str, Floats]) -> Floats:
        """1, 0 or NaN for every row."""
        real = _holds(self.real, columns)
        if not self.noise:
            return real
        noise = _holds(self.noise, columns)
        return np.where(real == 1, np.where(noise == 1, 0.5, 1.0), np.where(noise == 1, 0.0, np.nan))


def _conditions(text: str) -> tuple[tuple[str, str, float], ...] | None:
    found, position = [], 0
    while match := CONDITION.match(text, position):
        found.append((match["name"], match["op"], float(match["number"])))
        position = match.end()
        if position == len(text):
            return tuple(found)
        joint = JOINT.match(text, position)
        if joint is None:
            return None
        position = joint.end()
    return None


def _holds(conditions: tuple[tuple[str, str, float], ...], columns: Mapping[str, Floats]) -> Floats:
    """1 where every condition holds, 0 where one does not, NaN where that is unknown."""
    found = np.stack(
        [
            np.where(np.isnan(columns[name]), np.nan, OPERATORS[op](columns[name], number))
            for name, op, number in conditions
        ]
    )
    return np.where((found == 0).any(0), 0.0, np.where(np.isnan(found).any(0), np.nan, 1.0))


@dataclass(frozen=True)
class Events:
    """What kinds of events say: `view=?,cart=0.7,buy=1`, of the usual column or of one that is named before a colon."""

    text: str
    column: str | None
    kinds: Mapping[str, float]  # NaN: unknown

    @classmethod
    def parse(cls, text: str) -> Events:
        column, colon, rest = text.rpartition(":")
        kinds = {}
        for part in rest.split(","):
            kind, equals, said = (piece.strip() for piece in part.partition("="))
            try:
                number = np.nan if said == "?" else float(said)
            except ValueError:
                number = -1.0
            if not equals or not kind or not (np.isnan(number) or 0 <= number <= 1):
                raise InputError(
                    f"events {shown(text)}: {shown(part)} is not KIND=LABEL; write it like 'view=?,cart=0.7,buy=1',"
                    " with labels from 0 (noise) to 1 (real) or ? (unknown)."
                )
            kinds[kind] = number
        return cls(text, column.strip() if colon else None, kinds)

    def name_in(self, source: str, names: Sequence[str]) -> str:
        if self.column is not None:
            return present(source, self.column, names, "events")
        usual = [name for name in names if plain(name) in EVENT_NAMES.split()]
        if len(usual) != 1:
            found = " and ".join(f"'{name}'" for name in usual) if usual else "none"
            raise InputError(
                f"{source}: of the columns that usually name the kind of event it has {found}; give it before a colon:"
                f" 'COLUMN:{self.text}'."
            )
        return usual[0]

    def labels(self, source: str, name: str, column: Any) -> Floats:
        kinds = col.plain(column).cast(pa.string()).dictionary_encode()
        known = [str(kind).strip() for kind in kinds.dictionary.to_pylist()]
        if unknown := [kind for kind in known if kind not in self.kinds]:
            raise InputError(
                f"{source}: column '{name}' has events of kind {shown(unknown[0])}, which the rule does not name; add"
                f" {unknown[0]}=?, or what it says."
            )
        values = np.array([*(self.kinds[kind] for kind in known), np.nan])
        return np.asarray(values[np.asarray(kinds.indices.fill_null(len(known)))])


def present(source: str, name: str, names: Sequence[str], option: str) -> str:
    if name not in names:
        listing = ", ".join(f"'{one}'" for one in names[: col.MOST_LISTED])
        raise InputError(f"{source} has no column '{name}', which the {option} name; it has {listing}: correct them.")
    return name


def plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())
