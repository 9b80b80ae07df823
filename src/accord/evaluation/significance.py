"""Whether one method is better than another: tests paired by user and seed.

Every array is [S, N]: a metric where higher is better, for S seeds and N users in the same order everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from accord.errors import InputError

FLIPS = 10_000
DRAWS = 2_000
LEVEL = 0.95
BLOCK = 2**22  # numbers held at once by the flips and the draws: 32 MiB
ROUNDING = 1e-12  # smaller differences count as none: metrics take few values, so ties are common

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One method minus the baseline."""

    difference: float  # of the means
    low: float  # 95% interval of the difference, for other users and other seeds
    high: float
    p: float  # two-sided
    p_holm: float  # corrected for all methods compared with this baseline
    effect: float  # Cohen's d_z: mean over standard deviation of the users' differences
    better: float  # share of users for whom it is better, minus the share for whom it is worse


def compare_to(baseline: npt.ArrayLike, others: Mapping[str, npt.ArrayLike], seed: int = 0) -> dict[str, Comparison]:
    """Each of `others` against `baseline`. One run [1, N] stands for every seed, as a solved model's does.

    All are tested with the same flips and draws, so a result does not depend on which others are there (`p_holm` does).
    """
    if not others:
        return {}
    differences = _differences(baseline, others)  # [M, S, N]
    users = differences.mean(1)  # [M, N]
    users[np.abs(users) <= ROUNDING] = 0
    flips, draws = np.random.default_rng(seed).spawn(2)
    ps = _sign_flip(users, flips)
    lows, highs = _interval(differences, draws)
    found = {}
    for number, (name, p_holm) in enumerate(zip(others, holm(ps), strict=True)):
        mine = users[number]
        found[name] = Comparison(
            difference=float(mine.mean()),
            low=float(lows[number]),
            high=float(highs[number]),
            p=ps[number],
            p_holm=p_holm,
            effect=_effect(mine),
            better=float(np.sign(mine).mean()),
        )
    return found


def interval_of_means(metrics: npt.ArrayLike, seed: int = 0) -> tuple[Floats, Floats]:
    """The 95% interval of the mean of each of M metrics [M, S, N], for other users and other seeds: [M] and [M]."""
    return _interval(_finite(metrics, "the metrics"), np.random.default_rng(seed))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: the k-th smallest of m counts m − k + 1 times."""
    corrected, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = largest
    return corrected


def mean_and_sd(values: npt.ArrayLike) -> tuple[float, float]:
    """Mean and standard deviation over the seeds [S]; of one seed the deviation is 0."""
    array = _finite(values, "the values")
    if array.ndim != 1 or not len(array):
        raise InputError("a mean needs one value for each seed, and at least one seed.")
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0


def _finite(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite: leave out the users without a value, for every method.")
    return array


def _differences(baseline: npt.ArrayLike, others: Mapping[str, npt.ArrayLike]) -> Floats:
    """[M, S, N]: each method minus the baseline, on the same user and seed."""
    base = _finite(baseline, "the baseline's values")
    arrays = [_finite(values, f"the values of '{name}'") for name, values in others.items()]
    seeds = max(len(array) if array.ndim else 0 for array in (base, *arrays))
    num_users = base.shape[-1] if base.ndim else 0
    for name, array in zip(("the baseline", *others), (base, *arrays), strict=True):
        if array.shape not in {(seeds, num_users), (1, num_users)}:
            raise InputError(f"'{name}' has values of shape {list(array.shape)}, not [{seeds}, {num_users}].")
    if num_users < 2 or not seeds:
        raise InputError("a paired test needs at least two users and one seed.")
    return np.stack([np.broadcast_to(array - base, (seeds, num_users)) for array in arrays])


def _blocks(total: int, width: int) -> Iterator[int]:
    """How many rows of `width` numbers to take at a time, `total` in all."""
    most = max(1, BLOCK // width)
    for start in range(0, total, most):
        yield min(most, total - start)


def _sign_flip(users: Floats, rng: np.random.Generator) -> list[float]:
    """Two-sided p of every row of [M, N]: if the methods were equal, each user's difference could have either sign."""
    num_users = users.shape[1]
    totals, sizes = users.sum(1), np.abs(users).sum(1)
    reached = np.zeros(len(users), dtype=np.int64)
    for rows in _blocks(FLIPS, num_users):
        bits = np.frombuffer(rng.bytes(rows * (-(-num_users // 8))), dtype=np.uint8).reshape(rows, -1)
        kept = np.unpackbits(bits, axis=1, count=num_users).astype(np.float64)
        flipped = 2 * (kept @ users.T) - totals
        reached += (np.abs(flipped) >= np.abs(totals) - ROUNDING * sizes).sum(0)
    return [_p(int(count), row) for count, row in zip(reached, users, strict=True)]


def _p(reached: int, users: Floats) -> float:
    p = (reached + 1) / (FLIPS + 1)
    if reached:
        return p
    # No flip reached the total, so the flips only say that p is no larger. Their sum has mean 0 and variance Σd²; for
    # many users it is nearly normal. z is at most √N, so that few users cannot give less than what the flips say.
    z = abs(users.sum()) / math.sqrt(np.square(users).sum())
    return min(p, float(2 * ndtr(-z)))


def _interval(differences: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Percentiles of each mean of [M, S, N] when users and seeds are both drawn anew.

    Each draw takes one fewer than there are: this makes the variance between few seeds right, which a draw of all S
    understates by (S − 1) / S. Noise of one user in one seed enters with users and with seeds, so intervals err wide.
    """
    num, seeds, num_users = differences.shape
    flat = differences.reshape(num * seeds, num_users).T
    means = []
    for rows in _blocks(DRAWS, num_users):
        users = _counts(rows, num_users, rng) @ flat  # [rows, M · S]
        means.append(np.einsum("bms,bs->bm", users.reshape(rows, num, seeds), _counts(rows, seeds, rng)))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return low, high


def _counts(rows: int, size: int, rng: np.random.Generator) -> Floats:
    """[rows, size]: each row the weights of a draw with replacement; counting draws is faster than a multinomial."""
    drawn = max(1, size - 1)
    picks = rng.integers(size, size=(rows, drawn)) + np.arange(rows)[:, None] * size
    return np.bincount(picks.ravel(), minlength=rows * size).reshape(rows, size) / drawn


def _effect(users: Floats) -> float:
    mean, sd = float(users.mean()), float(users.std(ddof=1))
    if sd > ROUNDING:
        return mean / sd
    return math.copysign(math.inf, mean) if abs(mean) > ROUNDING else 0.0
