"""Loops over items taken together and their users, written for numba's compiler: `kernels.neighbours` calls them.

They are loops to the last step: numba takes ten seconds to compile `np.partition`, and five to assign a slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Values = npt.NDArray[np.floating[Any]]


def nearest(
    ptr: Ints, ids: Columns, weights: Values, other_ptr: Ints, others: Columns, given: Values, excluded: Ints,
    row_norm: Values, norm: Values, shrink: float, counts: Ints, columns: Columns, together: Values,
) -> None:  # fmt: skip
    """Of each row of a sparse x, whose entries lie at ptr[row] to ptr[row + 1]: a row of `counts`, `columns` and
    `together` [n, k] each, as `neighbours.nearest` gives them of x and y. `excluded`: a column that is left out."""
    number_of_columns, most = len(norm), columns.shape[1]
    total, reached = np.zeros(number_of_columns, given.dtype), np.zeros(number_of_columns, dtype=np.bool_)
    candidates = np.empty(number_of_columns, dtype=np.int32)
    scores, parted = np.empty(number_of_columns, given.dtype), np.empty(number_of_columns, given.dtype)
    for row in range(len(counts)):
        size = 0
        for p in range(ptr[row], ptr[row + 1]):
            middle, weight = np.uint64(ids[p]), weights[p]
            for q in range(np.uint64(other_ptr[middle]), np.uint64(other_ptr[middle + np.uint64(1)])):
                i = np.uint64(others[q])
                if not reached[i]:
                    reached[i] = True
                    candidates[size] = i
                    size += 1
                total[i] += weight * given[q]
        number = 0
        for n in range(size):
            i = candidates[n]
            reached[i] = False
            if i != excluded[row] and total[i] != 0:
                candidates[number] = i
                scores[number] = norm[i] * row_norm[row]
                number += 1
            else:
                total[i] = 0
        for n in range(number):  # in a loop of its own: sum and product are each rounded, as in numpy
            scores[n] = total[candidates[n]] / (scores[n] + shrink)
        selected = number
        if number > most:  # the k-th best, all above it, and of those equal to it the ones in earlier columns
            for n in range(number):
                parted[n] = scores[n]
            place, low, high = number - most, 0, number - 1
            while low < high:  # part around a number until the k-th best stands in its place
                pivot, a, b = parted[(low + high) // 2], low, high
                while a <= b:
                    while parted[a] < pivot:
                        a += 1
                    while parted[b] > pivot:
                        b -= 1
                    if a <= b:
                        parted[a], parted[b] = parted[b], parted[a]
                        a, b = a + 1, b - 1
                if b < place < a:
                    break
                low, high = (low, b) if place <= b else (a, high)
            least, selected, level = parted[place], 0, 0
            for n in range(number):
                i = candidates[n]
                if scores[n] > least:
                    columns[row, selected] = i
                    selected += 1
                elif scores[n] == least:
                    candidates[level] = i  # level <= n
                    level += 1
                else:
                    total[i] = 0
            candidates[:level].sort()
            for n in range(level):
                if selected < most:
                    columns[row, selected] = candidates[n]
                    selected += 1
                else:
                    total[candidates[n]] = 0
        else:
            for n in range(number):
                columns[row, n] = candidates[n]
        columns[row, :selected].sort()
        counts[row] = selected
        for n in range(selected):
            together[row, n] = total[columns[row, n]]
            total[columns[row, n]] = 0


def local_ridges(
    counts: Ints, columns: Columns, together: Doubles, pair_counts: Ints, pair_columns: Columns, pairs: Floats,
    first: int, diagonal: Doubles, penalty: Doubles, basis: Doubles, image: Doubles, inner: Doubles,
    weights: Floats, spread: Floats,
) -> None:  # fmt: skip
    """Of items first, first + 1, …: see `neighbours.local_ridges`, of whose arguments these are the rows."""
    num_items, dim, most = len(diagonal), basis.shape[1], columns.shape[1] + basis.shape[1]
    slot = np.full(num_items, -1, dtype=np.int32)
    left, right, inverse = np.zeros((most, most)), np.zeros(most), np.zeros(most)
    for row in range(len(counts)):
        item, near = first + row, counts[row]
        size = near + dim
        for a in range(near):
            slot[columns[row, a]] = a
            for b in range(near):
                left[a, b] = 0
        for a in range(near):
            i = columns[row, a]
            left[a, a] = diagonal[i]
            right[a] = together[row, a]
            for p in range(pair_counts[i]):
                b = slot[pair_columns[i, p]]
                if b >= 0:
                    left[a, b] = pairs[i, p]
                    left[b, a] = pairs[i, p]
        for a in range(near):
            slot[columns[row, a]] = -1
        for s in range(dim):
            v, h = basis[item, s], image[item, s]
            right[near + s] = h - diagonal[item] * v
            for a in range(near):
                left[near + s, a] = image[columns[row, a], s] - together[row, a] * v
            for t in range(s + 1):
                u = basis[item, t]
                left[near + s, near + t] = inner[s, t] - h * u - v * image[item, t] + diagonal[item] * v * u
        for a in range(size):  # the Cholesky factor, row by row, in the place of the matrix
            for b in range(a):
                total = 0.0
                for c in range(b):
                    total += left[a, c] * left[b, c]
                left[a, b] = (left[a, b] - total) * inverse[b]
            total, solved = 0.0, 0.0
            for c in range(a):
                total += left[a, c] * left[a, c]
                solved += left[a, c] * right[c]
            pivot = left[a, a] - total
            if a < near:  # it cannot be below the penalty, but where pairs that are missing were taken as 0
                pivot = max(pivot, penalty[columns[row, a]])
            inverse[a] = 1 / np.sqrt(pivot) if pivot > 1e-9 * left[a, a] else 0.0  # 0: says what others say already
            right[a] = (right[a] - solved) * inverse[a]
        for a in range(size - 1, -1, -1):
            right[a] *= inverse[a]
            for c in range(a):
                right[c] -= right[a] * left[a, c]
        for a in range(near):
            weights[row, a] = right[a]
        for s in range(dim):
            spread[row, s] = right[near + s]


def history_scores(
    ptr: Ints, items: Columns, values: Floats, ends: Ints, columns: Columns, weights: Floats, users: Ints, out: Floats
) -> None:
    """Adds x W to `out` [B, I], both sparse, row by row."""
    for row in range(len(users)):
        user, scores = users[row], out[row]
        for p in range(ptr[user], ptr[user + 1]):
            i, value = items[p], values[p]
            for q in range(np.uint64(ends[i]), np.uint64(ends[i + 1])):  # without a sign, as columns are looked up
                scores[np.uint64(columns[q])] += value * weights[q]


ALL: tuple[Callable[..., None], ...] = (nearest, local_ridges, history_scores)
