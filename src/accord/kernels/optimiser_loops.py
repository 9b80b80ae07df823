"""The decoupled form of Adam on rows of a table (`accord.nn.adam` states it), written for numba's compiler.

Only the rows that a step touches change; a row that is looked up again first takes the steps that it missed. A row may
be named several times. Of several threads each takes the rows whose number is `thread` modulo `threads`. Memory is
read ahead, many rows at once; what was read is returned, or the compiler would leave that out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from accord.kernels.cpu_loops import Floats, Ints

Steps = npt.NDArray[np.int32]  # [rows]: the step that each row is up to date with
Doubles = npt.NDArray[np.float64]

# e^-x is (1 - z + z^2 / 2 - z^3 / 6 + z^4 / 24)^16 with z = x / 16, at most 1: unlike exp, for many numbers at once
ONE, HALF, SIXTH, LAST = np.float32(1), np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
TINY = np.float32(1e-30)
AHEAD, LINE = 16, 16  # rows that are read ahead, and floats that memory delivers at once


def fade(
    weight: Floats, spread: Floats, last: Steps, rows: Ints, step: int, decay: float, base: int, sums: Doubles,
    roots: Doubles, eps: float, thread: int, threads: int,
) -> float:  # fmt: skip
    """Take all the steps that rows have missed, without a gradient, at once.

    From step s to step t a weight decays by exp(-decay * (sums[t] - sums[s]) * roots[s] / sqrt(spread)), and the spread
    by (roots[t] / roots[s])^2; places in both arrays count from step `base`.
    """
    dim, read = weight.shape[1], np.float32(0)
    for k in range(len(rows)):
        if k % AHEAD == 0:
            for n in range(k, min(k + AHEAD, len(rows))):
                row = np.uint64(rows[n])
                read += last[row]
                for d in range(0, dim, LINE):
                    read += weight[row, d] + spread[row, d]
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
    return float(read)


def move(
    weight: Floats, spread: Floats, last: Steps, rows: Ints, step: int, decay: float, gradient: Floats, size: float,
    beta: float, eps: float, thread: int, threads: int,
) -> float:  # fmt: skip
    """One step on rows that are up to date, each once; their gradient is cleared."""
    dim, read = weight.shape[1], np.float32(0)
    keep, rest, small = np.float32(beta), np.float32(1 - beta), np.float32(eps)
    lr, rate, root = np.float32(size), np.float32(decay / 16), np.float32(1 / np.sqrt(1 - beta**step))
    for k in range(len(rows)):
        if k % AHEAD == 0:
            for n in range(k, min(k + AHEAD, len(rows))):
                row = np.uint64(rows[n])
                read += last[row]
                for d in range(0, dim, LINE):
                    read += weight[row, d] + spread[row, d] + gradient[row, d]
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
    return float(read)


ALL: tuple[Callable[..., float], ...] = (fade, move)
