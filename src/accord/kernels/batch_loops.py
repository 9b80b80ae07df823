"""Loops that make the batches of one run and number what is in them, for numba's compiler: `accord.kernels.cpu` calls
them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from accord.kernels.cpu_loops import Ints

AT_ONCE = 64  # numbers that are searched for together


def distinct(ids: Ints, known: npt.NDArray[np.int32], rows: Ints, places: Ints, number: Ints) -> None:
    """`known` is zero, one for each row of the table; `rows` ends in repetitions of its first."""
    found = 0
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        if known[i] == 0:
            rows[found] = ids[k]
            found += 1
            known[i] = found
        places[k] = known[i] - 1
    number[0] = found
    for k in range(found, len(rows)):
        rows[k] = rows[0]


def distinct_ascending(ids: Ints, known: npt.NDArray[np.int32], rows: Ints, places: Ints, number: Ints) -> None:
    """The same in ascending order, of which `rows` begins with as many as there are."""
    for k in range(len(ids)):
        known[np.uint64(ids[k])] = 1
    found = 0
    for i in range(len(known)):
        if known[np.uint64(i)]:
            rows[np.uint64(found)] = i
            found += 1
            known[np.uint64(i)] = found
    for k in range(len(ids)):
        places[k] = known[np.uint64(ids[k])] - 1
    number[0] = found


def unseen(rows: Ints, numbers: Ints, free: Ints, ptr: Ints, cuts: Ints, skipped: Ints, total: int, out: Ints) -> None:
    """Of each number a point on what is left of the line when a row's own items are cut out, and its place on the whole
    line: behind those of `cuts[ptr[row]:ptr[row + 1]]`, which are sorted, that are no larger.

    Numbers of one row are searched for together, a step of each in turn: none waits for what the one before it reads.
    """
    one, low, point = np.uint64(1), np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.int64)
    k = 0
    while k < len(numbers):
        row, n = np.uint64(rows[k]), 1
        while n < AT_ONCE and k + n < len(numbers) and rows[k + n] == rows[k]:
            n += 1
        start, left, line = np.uint64(ptr[row]), np.uint64(max(free[row], 1)), rows[k] * total
        for m in range(n):
            point[m] = np.int64(np.uint64(numbers[k + m]) % left)
            low[m] = start
        size = np.uint64(ptr[row + one]) - start
        while size > np.uint64(0):
            half = (size + one) >> one
            for m in range(n):  # without a branch: the shift makes all bits 1 where the cut is no larger, else 0
                low[m] += half & np.uint64((cuts[low[m] + half - one] - line - point[m] - 1) >> 63)
            size -= half
        for m in range(n):
            out[k + m] = point[m] + (skipped[low[m] - one] if low[m] > start else 0)
        k += n


def end_to_end(ptr: Ints, users: Ints, owners: Ints, places: Ints) -> None:
    at, last = 0, users[-1]
    for k in range(len(users)):
        user = np.uint64(users[k])
        for entry in range(ptr[user], ptr[user + np.uint64(1)]):
            owners[at], places[at], last = users[k], entry, users[k]
            at += 1
    place = places[at - 1] if at else min(ptr[np.uint64(last)], max(ptr[-1] - 1, 0))
    for rest in range(at, len(owners)):
        owners[rest], places[rest] = last, place


ALL: tuple[Callable[..., object], ...] = (
    distinct,
    distinct_ascending,
    unseen,
    end_to_end,
)
