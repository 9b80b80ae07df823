"""Loops over the rows of one run, written for numba's compiler: `accord.kernels.cpu` calls them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Steps = npt.NDArray[np.int32]  # [rows]: the step that each row is up to date with
Doubles = npt.NDArray[np.float64]

SUMMED = 512  # numbers that are added up in single precision, their sums in double
# e^-x is (1 - z + z^2 / 2 - z^3 / 6 + z^4 / 24)^16 with z = x / 16, at most 1: unlike exp, for many numbers at once
ONE, HALF, SIXTH, LAST = np.float32(1), np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
TINY = np.float32(1e-30)


def dot(a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats, out: Floats) -> None:
    """`weight` is empty where there is none."""
    dim = a.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        total = np.float32(0)
        if len(weight):
            for d in range(dim):
                total += a[i, d] * b[j, d] * weight[d]
        else:
            for d in range(dim):
                total += a[i, d] * b[j, d]
        out[k] = total


def dot_slopes(
    a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats,
    slope: Floats, da: Floats, db: Floats, dw: Floats,
) -> None:  # fmt: skip
    # a loop for each array that is written: the compiler cannot know that they do not overlap
    dim = a.shape[1]
    for k in range(len(slope)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        s = slope[k]
        if len(weight):
            for d in range(dim):
                da[i, d] += s * weight[d] * b[j, d]
            for d in range(dim):
                db[j, d] += s * weight[d] * a[i, d]
            for d in range(dim):
                dw[d] += s * a[i, d] * b[j, d]
        else:
            for d in range(dim):
                da[i, d] += s * b[j, d]
            for d in range(dim):
                db[j, d] += s * a[i, d]


def best_items(
    scores: Floats, ptr: Ints, seen: Ints, owners: Ints, priority: Ints, best: Floats, items: Ints
) -> None:  # fmt: skip
    """The best items of each row, in order: by score, then by priority. What the owner of a row has seen becomes -inf,
    and NaN counts as -inf.

    A row is read once. The best so far are held in order; most items are worse than the last of them."""
    k, nothing = best.shape[1], np.float32(-np.inf)
    for row in range(len(scores)):
        of_row, top, top_items = scores[row], best[row], items[row]
        for at in range(ptr[owners[row]], ptr[owners[row] + 1]):
            of_row[np.uint64(seen[at])] = nothing
        size, least, last = 0, nothing, 0  # of the items held: how many, the lowest score, and its priority
        for item in range(len(of_row)):
            score = of_row[np.uint64(item)]
            if size == k and score < least:
                continue
            score, turn = score if score > nothing else nothing, priority[np.uint64(item)]
            if size == k and (score < least or (score == least and turn > last)):
                continue
            size = min(size + 1, k)
            place = size - 1
            while place > 0 and (
                top[place - 1] < score or (top[place - 1] == score and priority[top_items[place - 1]] > turn)
            ):
                top[place], top_items[place] = top[place - 1], top_items[place - 1]
                place -= 1
            top[place], top_items[place] = score, item
            least, last = top[size - 1], priority[top_items[size - 1]]


def add_standardised(
    scores: Floats, bits: npt.NDArray[np.int32], out: Floats, weight: float, start: int, end: int
) -> None:  # fmt: skip
    """Add each run's scores [R, B, I] of the users from `start` to before `end`, standardised over the items, to their
    rows of `out` [B, I], `weight` times. `bits` are those of the scores: as integers, without the sign, they are in
    the same order, and the largest of integers is found at full width."""
    runs, _, num_items = scores.shape
    for run in range(runs):
        for row in range(start, end):
            total, squares, largest = np.float64(0), np.float64(0), np.int32(0)
            for item in range(num_items):
                largest = max(largest, bits[run, row, item] & np.int32(0x7FFFFFFF))
            for first in range(0, num_items, SUMMED):
                part = np.float32(0)
                for item in range(first, min(first + SUMMED, num_items)):
                    part += scores[run, row, item]
                total += part
            mean = np.float32(total / num_items)
            for first in range(0, num_items, SUMMED):
                part = np.float32(0)
                for item in range(first, min(first + SUMMED, num_items)):
                    part += (scores[run, row, item] - mean) * (scores[run, row, item] - mean)
                squares += part
            spread = np.float32(np.sqrt(squares / num_items))
            if spread > np.float32(1e-6) * np.int32(largest).view(np.float32):
                factor = np.float32(weight) / spread
                for item in range(num_items):
                    out[row, item] += (scores[run, row, item] - mean) * factor


def conjugate_gradient_rows(
    ptr: Ints, columns: npt.NDArray[np.int32], counts: Floats, vectors: Floats, spectrum: Floats, penalty: Floats,
    steps: int, first: int, solutions: Floats,
) -> None:  # fmt: skip
    """For rows first, first + 1, … of a matrix `least_squares.conjugate_gradient_steps` from `solutions`, in place."""
    dim = vectors.shape[1]
    diagonal, residual = np.empty(dim, np.float32), np.empty(dim, np.float32)
    direction, image = np.empty(dim, np.float32), np.empty(dim, np.float32)
    for row in range(len(solutions)):
        solution, start, end = solutions[row], ptr[first + row], ptr[first + row + 1]
        if start == end:
            for d in range(dim):
                solution[d] = 0
            continue
        for d in range(dim):
            diagonal[d] = spectrum[d] + penalty[first + row]
            residual[d] = -diagonal[d] * solution[d]
        for at in range(start, end):
            i, product = np.uint64(columns[at]), np.float32(0)
            for d in range(dim):
                product += vectors[i, d] * solution[d]
            product = counts[at] * (np.float32(1) - product)
            for d in range(dim):
                residual[d] += product * vectors[i, d]
        size = np.float32(0)
        for d in range(dim):
            direction[d] = residual[d] / diagonal[d]
            size += residual[d] * direction[d]
        for _ in range(steps):
            if not size > 0:  # solved, or NaN
                break
            for d in range(dim):
                image[d] = diagonal[d] * direction[d]
            for at in range(start, end):
                i, product = np.uint64(columns[at]), np.float32(0)
                for d in range(dim):
                    product += vectors[i, d] * direction[d]
                product *= counts[at]
                for d in range(dim):
                    image[d] += product * vectors[i, d]
            length, before = np.float32(0), size
            for d in range(dim):
                length += direction[d] * image[d]
            if length == 0:  # what is left to go is below the smallest float
                break
            length = size / length
            size = np.float32(0)
            for d in range(dim):
                solution[d] += length * direction[d]
                residual[d] -= length * image[d]
                size += residual[d] * residual[d] / diagonal[d]
            for d in range(dim):
                direction[d] = residual[d] / diagonal[d] + size / before * direction[d]


# The decoupled form of Adam on rows of a table (`accord.nn.adam` states it). Only rows that a step touches change, and
# one that is looked up again first takes the steps that it missed. A row may be named several times. Of several threads
# each takes the rows whose number is `thread` modulo `threads`.


def fade(
    weight: Floats, spread: Floats, last: Steps, rows: Ints, step: int, decay: float, base: int, sums: Doubles,
    roots: Doubles, eps: float, thread: int, threads: int,
) -> None:  # fmt: skip
    """Take all the steps that rows have missed, without a gradient, at once.
    From step s to step t a weight decays by exp(-decay * (sums[t] - sums[s]) * roots[s] / sqrt(spread)), and the spread
    by (roots[t] / roots[s])^2; places in both arrays count from step `base`."""
    dim = weight.shape[1]
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        missed, before = step - last[row], last[row] - base
        if missed == 0 or rows[k] % threads != thread:
            continue
        last[row] = step
        if decay != 0:
            rate = np.float32(decay / 16 * (sums[step - base] - sums[before]) * roots[before])
            most = np.float32(min(decay / 16 * missed / eps, 1.0))
            for d in range(dim):
                part = min(rate / max(np.sqrt(spread[row, d]), TINY), most)
                factor = ONE - part * (ONE - part * (HALF - part * (SIXTH - part * LAST)))
                factor *= factor
                factor *= factor
                factor *= factor
                weight[row, d] *= factor * factor
        shrunk = np.float32((roots[step - base] / roots[before]) ** 2)
        for d in range(dim):
            v = shrunk * spread[row, d]
            spread[row, d] = v if v > TINY else np.float32(0)  # what is nearly 0 is slow


def move(
    weight: Floats, spread: Floats, last: Steps, rows: Ints, step: int, decay: float, gradient: Floats, size: float,
    beta: float, eps: float, thread: int, threads: int,
) -> None:  # fmt: skip
    """One step on rows that are up to date, each once; their gradient is cleared."""
    dim = weight.shape[1]
    keep, rest, small = np.float32(beta), np.float32(1 - beta), np.float32(eps)
    lr, rate, root = np.float32(size), np.float32(decay / 16), np.float32(1 / np.sqrt(1 - beta**step))
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        if last[row] == step or rows[k] % threads != thread:
            continue
        last[row] = step
        for d in range(dim):
            g = gradient[row, d]
            v = keep * spread[row, d] + rest * g * g
            spread[row, d], gradient[row, d] = v, 0
            by = ONE / max(np.sqrt(v) * root, small)
            part = min(rate * by, ONE)
            factor = ONE - part * (ONE - part * (HALF - part * (SIXTH - part * LAST)))
            factor *= factor
            factor *= factor
            factor *= factor
            weight[row, d] = factor * factor * weight[row, d] - lr * g * by


ALL: tuple[Callable[..., object], ...] = (
    dot, dot_slopes, best_items, add_standardised, conjugate_gradient_rows, fade, move,
)  # fmt: skip
