"""Which items may be recommended: all but some, only some, or those whose attributes meet conditions.

A condition is `NAME OP VALUE` on a column of the items file: `genre=drama`, `year>=1990`, `genre!=horror|war`. An item
without a value meets no condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from accord.data.csr import Bools, IntArray
from accord.data.rules import OPERATORS, Condition
from accord.errors import Argument, InputError, shown, unknown

Where = str | Sequence[str]
PATTERN = r"^[^=!<>]+(=|!=|>|<)."  # how a condition begins
FORM = "write it as genre=drama, genre!=horror|war or year>=1990"
SEPARATOR = "|"  # between the values of a cell, and between those that a condition allows
DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
CACHE_SIZE = 64  # conditions, and columns


def _holds(condition: Condition, values: Sequence[str], where: str) -> list[bool]:
    """Whether it holds for each cell, which may have several values."""
    name, op, value = condition
    if op in ("==", "!="):
        wanted = _parts(value)
        return [bool(wanted & _parts(cell)) == (op == "==") for cell in values]
    compare, numbers = OPERATORS[op], [_number(cell) for cell in values]
    if None not in numbers:
        if (bound := _number(value)) is None:
            raise InputError(f"{where}: '{name}' is a column of numbers; give a number.")
        return [compare(number, bound) for number in numbers]
    if all(map(DATE.fullmatch, values)):  # the order of their text is the order of time
        return [compare(cell, value) for cell in values]
    example = shown(values[numbers.index(None)])
    raise InputError(f"{where}: '{name}' has unordered values, such as {example}; use = or !=.")


def _number(text: str) -> float | None:
    try:
        return number if math.isfinite(number := float(text)) else None
    except ValueError:
        return None


def _parts(text: str) -> set[str | float]:
    """The values of a text in lower case, and numbers as numbers, so that 5 equals 5.0."""
    texts = [part.strip() for part in text.split(SEPARATOR)]
    return {part.casefold() if (number := _number(part)) is None else number for part in texts}


class Choices:
    def __init__(self, size: int, info: pa.Table | None) -> None:
        """`info`: one row per item, if the run has an items file."""
        self._size, self._info = size, info
        self._mask, self._codes = lru_cache(CACHE_SIZE)(self._find), lru_cache(CACHE_SIZE)(self._encode)

    def barred(self, exclude: IntArray, allow: IntArray | None, where: Where = ()) -> Tensor | None:
        """Marks the rows of items [I] to leave out; None if there are none."""
        conditions = [where] if isinstance(where, str) or not isinstance(where, Iterable) else list(where)
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

    def _find(self, text: str) -> Bools:
        """Which items meet a condition."""
        where = f"where {shown(text)}"
        if (condition := Condition.parse(text)) is None:
            raise InputError(f"{where}: {FORM}.")
        codes = self._codes(self._column(condition.name, where))
        holds = np.array([*_holds(condition, codes.dictionary.to_pylist(), where), False], dtype=bool)
        mask: Bools = holds[np.asarray(codes.indices.fill_null(len(holds) - 1))]
        return mask

    def _column(self, given: str, where: str) -> str:
        """The column of that name, ignoring case."""
        if self._info is None:
            raise InputError(f"{where}: this run has no items file; train it with ", Argument("items"), ".")
        columns = self._info.column_names
        names = {name.casefold(): name for name in reversed(columns)} | {name: name for name in columns}
        name: str | None = names.get(given, names.get(given.casefold()))
        if name is None:
            raise unknown(f"column of {where}:", given, columns)
        return name

    def _encode(self, name: str) -> pa.DictionaryArray:
        """The distinct values of a column as text; several values of an item as `a|b`."""
        assert self._info is not None
        column = self._info.column(name).combine_chunks()
        if pa.types.is_nested(column.type):
            cells = [cell.values() if isinstance(cell, dict) else cell for cell in column.to_pylist()]
            texts = [None if c is None else SEPARATOR.join(str(v) for v in c if v is not None) for c in cells]
            column = pa.array(texts, pa.string())
        text = column.cast(pa.string())
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text).dictionary_encode()
