"""Sorting hundreds of millions of rows: numpy sorts plain integers far faster than it finds their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[Any]  # row numbers, int32 where they fit
KEY_BITS = 64


def lexsort(keys: Sequence[npt.NDArray[Any]]) -> Order:
    """np.lexsort of integer or float keys of equal length, the last the most significant: the same order, faster.

    Row numbers and as many keys as fit are packed into one integer, and these integers are sorted.
    """
    size = len(keys[0])
    row_bits = max(1, (size - 1).bit_length())
    order: Order | None = None
    packed, used = np.zeros(size, dtype=np.uint64), 0
    for digit in [digit for key in keys for digit in _digits(key, KEY_BITS - row_bits)]:
        if used + digit.bits > KEY_BITS - row_bits:
            order, used = _sorted(packed, row_bits, order), 0
            packed.fill(0)
        digit.add_to(packed, used)
        used += digit.bits
    return _sorted(packed, row_bits, order)


class _Digit(NamedTuple):
    """Some bits of a key less its smallest value; computed only when they are packed."""

    key: npt.NDArray[Any]
    smallest: int
    shift: int
    bits: int

    def add_to(self, packed: npt.NDArray[np.uint64], place: int) -> None:
        digit = self.key.astype(np.int64)
        digit -= self.smallest  # wraps around to the right unsigned number
        digit = digit.view(np.uint64)
        digit >>= np.uint64(self.shift)
        digit &= np.uint64(2**self.bits - 1)
        digit <<= np.uint64(place)
        packed |= digit


def _digits(key: npt.NDArray[Any], room: int) -> list[_Digit]:
    """A key in parts of at most `room` bits, the lowest first."""
    if not len(key):
        return []
    key = _as_integers(key) if key.dtype.kind == "f" else key
    smallest = int(key.min())
    bits = (int(key.max()) - smallest).bit_length()
    return [_Digit(key, smallest, shift, min(room, bits - shift)) for shift in range(0, bits, room)]


def _as_integers(key: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Integers in the order of the floats: their bits, inverted where the sign is set."""
    bits = (key.astype(np.float64) + 0.0).view(np.int64)  # so that -0.0 equals 0.0
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _sorted(packed: npt.NDArray[np.uint64], row_bits: int, order: Order | None) -> Order:
    """The rows by their packed keys; equal keys keep the order they have in `order`."""
    keys = packed.copy() if order is None else np.take(packed, order)
    keys <<= np.uint64(row_bits)
    keys |= np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64(2**row_bits - 1)
    rows: Order = keys.view(np.int64)
    return np.take(order, rows) if order is not None else rows.astype(np.int32 if row_bits < 32 else np.int64)


def rises(keys: npt.NDArray[Any]) -> bool:
    """Whether every key is greater than the one before."""
    return bool(np.all(keys[1:] > keys[:-1]))


def distinct(keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """np.unique of integers by sorting them: on large arrays np.unique, which hashes, is a hundred times slower."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
