"""What an optimiser does to the rows of a table, written for numba's compiler: `accord.kernels.cpu` calls it.

Only the rows that a step touches are changed; a row that is looked up again first takes the steps that it missed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from accord.kernels.cpu_loops import Floats, Ints

Marks = npt.NDArray[np.int32]  # of each row the step up to which it is, and one more than its place among those touched

Doubles = npt.NDArray[np.float64]

# e^-x is (1 - z + z^2 / 2 - z^3 / 6 + z^4 / 24)^16 with z = x / 16, at most 1: unlike exp, for many numbers at once
ONE, HALF, SIXTH, LAST = np.float32(1), np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
TINY = np.float32(1e-30)
AT_ONCE, LINE = 16, 16  # rows that are read ahead, and numbers that come with one from memory


def enlist(ids: Ints, marks: Marks, rows: Ints, places: Ints, number: Ints) -> None:
    """Put those of the ids that are not yet among the `number` rows touched behind them; and the place of each id."""
    touched = number[0]
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        if marks[i, 1] == 0:
            rows[touched] = ids[k]
            touched += 1
            marks[i, 1] = touched
        places[k] = marks[i, 1] - 1
    number[0] = touched


def replay(
    weight: Floats, mean: Floats, spread: Floats, marks: Marks, rows: Ints, step: int, decay: float,
    beta1: float, beta2: float, eps: float, sizes: Floats, roots: Floats,
) -> None:  # fmt: skip
    """Take the steps that rows have missed, up to `step`, each with no gradient but the penalty's.

    `sizes[t]` is lr / (1 - beta1^t) and `roots[t]` is 1 / sqrt(1 - beta2^t).
    """
    dim = weight.shape[1]
    b1, b2, rest1, rest2 = np.float32(beta1), np.float32(beta2), np.float32(1 - beta1), np.float32(1 - beta2)
    factor, small = np.float32(decay), np.float32(eps)
    now = np.empty((3, dim), np.float32)  # the row's weight, mean and spread
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        first = marks[row, 0] + 1
        if first > step:
            continue
        marks[row, 0] = step
        for d in range(dim):
            now[0, d], now[1, d], now[2, d] = weight[row, d], mean[row, d], spread[row, d]
        if decay != 0:
            for t in range(first, step + 1):
                size, root = sizes[t], roots[t]
                for d in range(dim):
                    g = factor * now[0, d]
                    m = b1 * now[1, d] + rest1 * g
                    v = b2 * now[2, d] + rest2 * g * g
                    now[1, d], now[2, d] = m, v
                    now[0, d] -= size * m / (np.sqrt(v) * root + small)
        else:  # mean and spread only fade, by what is the same for the whole row
            largest = np.float32(0)
            for d in range(dim):
                now[2, d] = np.sqrt(now[2, d])
                largest = max(largest, abs(now[1, d]) / (now[2, d] + small))
            fade, root_fade = np.float64(1), np.float64(1)
            for t in range(first, step + 1):
                fade, root_fade = fade * beta1, root_fade * np.sqrt(beta2)
                size, root = np.float32(sizes[t] * fade), np.float32(roots[t] * root_fade)
                if size * largest < 1e-9 * root:  # moves nothing that float32 could show, nor will any behind it
                    break
                for d in range(dim):
                    now[0, d] -= size * now[1, d] / (now[2, d] * root + small)
            fade, root_fade = beta1 ** (step + 1 - first), beta2 ** (step + 1 - first)
            for d in range(dim):
                now[1, d] = np.float32(now[1, d] * fade)
                now[2, d] = np.float32(spread[row, d] * root_fade)
        for d in range(dim):
            weight[row, d], spread[row, d] = now[0, d], now[2, d]
            mean[row, d] = now[1, d] if abs(now[1, d]) > 1e-30 else np.float32(0)  # what is nearly 0 is slow


def update(
    weight: Floats, mean: Floats, spread: Floats, marks: Marks, rows: Ints, step: int, decay: float,
    beta1: float, beta2: float, eps: float, sizes: Floats, roots: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """One step of Adam on rows that are up to date; their gradient [n, dim] is used up, their mark gone."""
    dim = weight.shape[1]
    b1, b2, rest1, rest2 = np.float32(beta1), np.float32(beta2), np.float32(1 - beta1), np.float32(1 - beta2)
    factor, small, size, root = np.float32(decay), np.float32(eps), sizes[step], roots[step]
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        marks[row, 0], marks[row, 1] = step, 0
        for d in range(dim):
            g = gradient[k, d] + factor * weight[row, d]
            m = b1 * mean[row, d] + rest1 * g
            v = b2 * spread[row, d] + rest2 * g * g
            mean[row, d], spread[row, d], gradient[k, d] = m, v, 0
            weight[row, d] -= size * m / (np.sqrt(v) * root + small)


def fade(
    weight: Floats, spread: Floats, marks: Marks, rows: Ints, step: int, base: int, decay: float, eps: float,
    sums: Doubles, roots: Doubles,
) -> None:  # fmt: skip
    """`replay` of the decoupled form: all steps missed at once.

    From step s to step t a weight decays by exp(-decay * (sums[t] - sums[s]) * roots[s] / sqrt(spread)), and the spread
    by (roots[t] / roots[s])^2; places in both arrays count from step `base`.
    """
    dim = weight.shape[1]
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        last = marks[row, 0]
        if last == step:
            continue
        marks[row, 0] = step
        if decay != 0:
            rate = np.float32(decay / 16 * (sums[step - base] - sums[last - base]) * roots[last - base])
            most = np.float32(min(decay / 16 * (step - last) / eps, 1.0))
            for d in range(dim):
                part = min(rate / max(np.sqrt(spread[row, d]), TINY), most)
                kept = ONE - part * (ONE - part * (HALF - part * (SIXTH - part * LAST)))
                kept *= kept
                kept *= kept
                kept *= kept
                weight[row, d] *= kept * kept
        factor = np.float32((roots[step - base] / roots[last - base]) ** 2)
        for d in range(dim):
            v = spread[row, d] * factor
            spread[row, d] = v if v > 1e-30 else np.float32(0)  # what is nearly 0 is slow


def fade_weight(
    weight: Floats, spread: Floats, marks: Marks, rows: Ints, step: int, base: int, decay: float, eps: float,
    sums: Doubles, roots: Doubles, missed: Ints, ahead: Floats,
) -> None:  # fmt: skip
    """`fade` of the weights alone, where the spread is at once to be changed by `move`: it is told how many steps
    were `missed`."""
    dim, total = weight.shape[1], np.float32(0)
    for start in range(0, len(rows), AT_ONCE):
        end = min(start + AT_ONCE, len(rows))
        if decay != 0:
            for k in range(start, end):  # of many rows at once, or each would be waited for
                row = np.uint64(rows[k])
                for d in range(0, dim, LINE):
                    total += weight[row, d] + spread[row, d]
        for k in range(start, end):
            row = np.uint64(rows[k])
            last = marks[row, 0]
            missed[k] = step - last
            marks[row, 0] = step
            if decay != 0 and last < step:
                rate = np.float32(decay / 16 * (sums[step - base] - sums[last - base]) * roots[last - base])
                most = np.float32(min(decay / 16 * (step - last) / eps, 1.0))
                for d in range(dim):
                    part = min(rate / max(np.sqrt(spread[row, d]), TINY), most)
                    kept = ONE - part * (ONE - part * (HALF - part * (SIXTH - part * LAST)))
                    kept *= kept
                    kept *= kept
                    kept *= kept
                    weight[row, d] *= kept * kept
    ahead[0] = total  # or the compiler would not read


def move(
    weight: Floats, spread: Floats, marks: Marks, rows: Ints, step: int, decay: float, eps: float,
    missed: Ints, ahead: Floats, size: float, beta2: float, gradient: Floats,
) -> None:  # fmt: skip
    """`update` of the decoupled form, on rows whose weights alone are up to date."""
    dim, total = weight.shape[1], np.float32(0)
    log_beta, rest2, small = np.log(beta2), np.float32(1 - beta2), np.float32(eps)
    lr, rate, root = np.float32(size), np.float32(decay / 16), np.float32(1 / np.sqrt(1 - beta2**step))
    for start in range(0, len(rows), AT_ONCE):
        end = min(start + AT_ONCE, len(rows))
        for k in range(start, end):
            row = np.uint64(rows[k])
            for d in range(0, dim, LINE):
                total += spread[row, d] + weight[row, d]
        for k in range(start, end):
            row = np.uint64(rows[k])
            marks[row, 0], marks[row, 1] = step, 0
            b2 = np.float32(np.exp((missed[k] + 1) * log_beta))
            for d in range(dim):
                g = gradient[k, d]
                v = b2 * spread[row, d] + rest2 * g * g
                spread[row, d], gradient[k, d] = v, 0
                by = ONE / max(np.sqrt(v) * root, small)
                part = min(rate * by, ONE)
                kept = ONE - part * (ONE - part * (HALF - part * (SIXTH - part * LAST)))
                kept *= kept
                kept *= kept
                kept *= kept
                weight[row, d] = kept * kept * weight[row, d] - lr * g * by
    ahead[0] = total


ALL: tuple[Callable[..., None], ...] = (
    enlist,
    replay,
    update,
    fade,
    fade_weight,
    move,
)
