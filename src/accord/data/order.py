"""Sorting hundreds of millions of rows: numpy sorts plain integers far faster than it finds their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[Any]  # row numbers, int32 where they fit
KEY_BITS = 64


def lexsort(keys: Sequence[npt.NDArray[Any]]) -> Order:
    """np.lexsort of integer or float keys of equal length, the last of them the first to go by: the same order, sooner.

    Keys and row numbers are packed into one integer, as many keys as there is room for, which is sorted as it is.
    """
    size = len(keys[0])
    row_bits = max(1, (size - 1).bit_length())
    order: Order | None = None
    packed, used = None, 0
    for digit, bits in (part for key in keys for part in _digits(key, KEY_BITS - row_bits)):
        if packed is not None and used + bits > KEY_BITS - row_bits:
            order, packed, used = _sorted(packed, row_bits, order), None, 0
        digit <<= np.uint64(used)
        packed = digit if packed is None else np.bitwise_or(packed, digit, out=packed)
        used += bits
    return np.arange(0) if packed is None else _sorted(packed, row_bits, order)


def _digits(key: npt.NDArray[Any], room: int) -> Iterator[tuple[npt.NDArray[np.uint64], int]]:
    """The key from its smallest value on, in parts of at most `room` bits, lowest first, and how many bits each has."""
    if not len(key):
        return
    whole = _as_integers(key)
    smallest = whole.min()
    bits = (int(whole.max()) - int(smallest)).bit_length()
    whole -= smallest  # wraps around to what it should be without a sign
    digit = whole.view(np.uint64)
    if bits > room:
        yield digit & np.uint64(2**room - 1), room
        digit >>= np.uint64(room)
        bits -= room
    yield digit, bits


def _as_integers(key: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A copy as int64 in the same order; of floats that is their bits, turned round where the sign is set."""
    if key.dtype.kind != "f":
        return key.astype(np.int64)
    bits = (key.astype(np.float64) + 0.0).view(np.int64)  # one zero, not two
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _sorted(packed: npt.NDArray[np.uint64], row_bits: int, order: Order | None) -> Order:
    """The rows by their packed keys; those with equal keys stay as they are in `order`."""
    if order is not None:
        packed = np.take(packed, order)
    packed <<= np.uint64(row_bits)
    packed |= np.arange(len(packed), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(2**row_bits - 1)
    if order is not None:
        return np.take(order, packed.view(np.int64))
    return packed.astype(np.int32 if row_bits < 32 else np.int64)


def rises(keys: npt.NDArray[Any]) -> bool:
    """Whether every key is greater than the one before."""
    return bool(np.all(keys[1:] > keys[:-1]))


def distinct(keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """np.unique of integers by sorting them: on large arrays numpy's own, which hashes, is a hundred times slower."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
