"""Sorting hundreds of millions of rows: numpy sorts plain integers far faster than it finds their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[Any]  # row numbers, int32 where they fit


def lexsort(keys: Sequence[npt.NDArray[Any]]) -> Order:
    """np.lexsort of integer or float keys of equal length, the last the most significant: the same order, faster."""
    order = argsort(keys[0])
    for key in keys[1:]:
        order = np.take(order, argsort(np.take(key, order)))
    return order


def argsort(key: npt.NDArray[Any]) -> Order:
    """A stable np.argsort. Keys are sorted with the row numbers in their lowest bits, and in two halves if they are too
    wide for that."""
    if not len(key):
        return np.zeros(0, dtype=np.int32)
    if key.dtype.kind == "f":
        key = (key.astype(np.float64) + 0.0).view(np.int64)  # so that -0.0 equals 0.0
        key = np.where(key < 0, key ^ np.int64(2**63 - 1), key)  # now in the order of the floats
    smallest, row_bits = int(key.min()), (len(key) - 1).bit_length()
    if (int(key.max()) - smallest).bit_length() + row_bits > 63:
        return lexsort([key & np.int64(2**32 - 1), key >> 32])
    packed = key.astype(np.int64)
    packed -= smallest
    packed <<= row_bits
    rows: Order = np.arange(len(key), dtype=np.int32 if row_bits < 32 else np.int64)
    packed |= rows
    del rows
    packed.sort()
    packed &= 2**row_bits - 1
    return packed.astype(np.int32) if row_bits < 32 else packed


def rises(keys: npt.NDArray[Any]) -> bool:
    """Whether every key is greater than the one before."""
    return bool(np.all(keys[1:] > keys[:-1]))


def distinct(keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """np.unique of integers by sorting them: on large arrays np.unique, which hashes, is a hundred times slower."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
