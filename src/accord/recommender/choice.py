"""Which items may be recommended: all but some, only some, or those whose attributes meet conditions.

A condition is `NAME OP VALUE` on a column of the items file: `genre=drama`, `year>=1990`, `genre!=horror|war`. What is
known of no value meets no condition.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from accord.data.csr import IntArray
from accord.errors import InputError, shown, unknown

Mask = npt.NDArray[np.bool_]
Where = str | Sequence[str]
PATTERN = r"^[^=!<>]+(=|!=|>|<)."  # how a condition begins
CONDITION = re.compile(r"\s*(?P<name>[^=!<>]+?)\s*(?P<op>>=|<=|!=|==?|>|<)\s*(?P<value>\S(.*\S)?)\s*", re.DOTALL)
FORM = "write it as genre=drama, genre!=horror|war or year>=1990"
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
SEPARATOR = "|"  # between the values of a cell, and between those that a condition allows
DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
KEPT = 64  # masks of conditions that were asked for last


@dataclass(frozen=True)
class Condition:
    """A condition as it was written, taken apart."""

    text: str
    name: str
    op: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        match = CONDITION.fullmatch(text)
        if match is None or not match["name"].strip():
            raise InputError(f"where {shown(text)}: {FORM}.")
        return cls(text, match["name"], match["op"].replace("==", "="), match["value"])

    def holds(self, values: Sequence[str]) -> list[bool]:
        """Whether it does for different values, each of which may be several."""
        if self.op in ORDER:
            return self._ordered(values)
        wanted = _parts(self.value)
        return [bool(wanted & _parts(value)) == (self.op == "=") for value in values]

    def _ordered(self, values: Sequence[str]) -> list[bool]:
        """By number, or dates by their text, which is in the order of time."""
        compare, numbers = ORDER[self.op], [_number(value) for value in values]
        if None not in numbers:
            if (bound := _number(self.value)) is None:
                raise InputError(f"where {shown(self.text)}: '{self.name}' has numbers, and this is none; give one.")
            return [compare(number, bound) for number in numbers]
        if all(map(DATE.fullmatch, values)):
            return [compare(value, self.value) for value in values]
        odd = values[numbers.index(None)]
        raise InputError(
            f"where {shown(self.text)}: '{self.name}' has values without an order, as {shown(odd)}; use = or !=."
        )


def _number(text: str) -> float | None:
    try:
        return number if math.isfinite(number := float(text)) else None
    except ValueError:
        return None


def _parts(text: str) -> set[str | float]:
    """The values of a text, regardless of case; numbers as numbers, so that 5 is 5.0."""
    texts = [part.strip() for part in text.split(SEPARATOR)]
    return {part.casefold() if (number := _number(part)) is None else number for part in texts}


class Choices:
    """The items of a recommender, to choose from."""

    def __init__(self, size: int, info: pa.Table | None) -> None:
        """`info`: a row for each item, where anything is known of them."""
        self._size, self._info = size, info
        self._mask, self._codes = lru_cache(KEPT)(self._made), lru_cache(KEPT)(self._encoded)

    def barred(self, exclude: IntArray, allow: IntArray | None, where: Where = ()) -> Tensor | None:
        """Marks the rows of items [I] to leave out; None if there are none."""
        if not isinstance(where, Iterable):
            raise InputError(f"where is {shown(where)}; write conditions as text: 'genre=drama'.")
        conditions = [where] if isinstance(where, str) else list(where)
        if not len(exclude) and allow is None and not conditions:
            return None
        barred = np.full(self._size, allow is not None)
        if allow is not None:
            barred[allow] = False
        barred[exclude] = True
        for condition in conditions:
            if not isinstance(condition, str):
                raise InputError(f"where is {shown(condition)}; write conditions as text: 'genre=drama'.")
            barred |= ~self._mask(condition)
        return torch.from_numpy(barred)

    def _made(self, text: str) -> Mask:
        """Which items meet a condition."""
        condition = Condition.parse(text)
        codes = self._codes(self._name(condition))
        there = np.asarray(codes.is_valid())
        holds = np.array(condition.holds(codes.dictionary.to_pylist()), dtype=bool)
        mask = np.zeros(self._size, dtype=bool)
        mask[there] = holds[np.asarray(codes.indices.drop_null())] if len(holds) else False
        return mask

    def _name(self, condition: Condition) -> str:
        """The column that a condition is on, regardless of case."""
        if self._info is None:
            raise InputError(
                f"where {shown(condition.text)}: nothing is known of the items of this run; train it with --items FILE."
            )
        known = self._info.column_names
        names = {name.casefold(): name for name in reversed(known)} | {name: name for name in known}
        name: str | None = names.get(condition.name, names.get(condition.name.casefold()))
        if name is None:
            raise unknown(f"column of where {shown(condition.text)}:", condition.name, known)
        return name

    def _encoded(self, name: str) -> pa.DictionaryArray:
        """The values of a column as text, each once; several of an item as `a|b`."""
        assert self._info is not None
        column = self._info.column(name).combine_chunks()
        if pa.types.is_nested(column.type):
            cells = [None if cell is None else SEPARATOR.join(map(str, _flat(cell))) for cell in column.to_pylist()]
            column = pa.array(cells, pa.string())
        text = column.cast(pa.string())
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text).dictionary_encode()


def _flat(cell: Any) -> list[Any]:
    values = cell.values() if isinstance(cell, dict) else cell
    return [value for value in values if value is not None]
