"""Significance tests paired by user and seed.

Every array is [S, N]: a metric where higher is better, for S seeds and N users, in the same order in all arrays."""

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
BLOCK = 2**22  # numbers in memory at once: 32 MiB
ROUNDING = 1e-12  # smaller differences count as 0; ties are common because metrics take few values

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    difference: float  # of the means
    low: float  # 95% interval of the difference, for other users and other seeds
    high: float
    p: float  # two-sided
    p_holm: float  # corrected for all methods compared with this baseline
    effect: float  # Cohen's d_z: mean over standard deviation of the users' differences
    better: float  # share of users for whom it is better, minus the share for whom it is worse


def compare_to(baseline: npt.ArrayLike, others: Mapping[str, npt.ArrayLike], seed: int = 0) -> dict[str, Comparison]:
    """Compare each of `others` with `baseline`. One run [1, N] stands for every seed, as that of a solved model does.
    All use the same random flips and draws, so only `p_holm` depends on which others are compared."""
    if not others:
        return {}
    differences = _differences(baseline, others)  # [M, S, N]
    per_user = differences.mean(1)  # [M, N]
    per_user[np.abs(per_user) <= ROUNDING] = 0
    flips, draws = np.random.default_rng(seed).spawn(2)
    ps = _sign_flip(per_user, flips)
    rows = zip(others, per_user, *_interval(differences, draws), ps, holm(ps), strict=True)
    return {
        name: Comparison(
            float(values.mean()), float(low), float(high), p, p_holm, _effect(values), float(np.sign(values).mean())
        )
        for name, values, low, high, p, p_holm in rows
    }


def interval_of_means(metrics: npt.ArrayLike, seed: int = 0) -> tuple[Floats, Floats]:
    """The ends [M] and [M] of 95% intervals of the means of M metrics [M, S, N], over users and seeds."""
    return _interval(_finite(metrics, "the metrics"), np.random.default_rng(seed))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: the k-th smallest of m p-values is multiplied by m − k + 1."""
    corrected, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = largest
    return corrected


def _finite(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite: leave out users without a value, for every method.")
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
    most = max(1, BLOCK // width)
    for start in range(0, total, most):
        yield min(most, total - start)


def _sign_flip(per_user: Floats, rng: np.random.Generator) -> list[float]:
    """Two-sided p of every row of [M, N]: if two methods were equal, each user's difference could have either sign."""
    num_users = per_user.shape[1]
    totals, sizes = per_user.sum(1), np.abs(per_user).sum(1)
    reached = np.zeros(len(per_user), dtype=np.int64)
    for rows in _blocks(FLIPS, num_users):
        bits = np.frombuffer(rng.bytes(rows * (-(-num_users // 8))), dtype=np.uint8).reshape(rows, -1)
        positive = np.unpackbits(bits, axis=1, count=num_users).astype(np.float64)
        flipped = 2 * (positive @ per_user.T) - totals
        reached += (np.abs(flipped) >= np.abs(totals) - ROUNDING * sizes).sum(0)
    return [_p(int(count), row) for count, row in zip(reached, per_user, strict=True)]


def _p(reached: int, values: Floats) -> float:
    p = (reached + 1) / (FLIPS + 1)
    if reached:
        return p
    # No flip reached the total, so the flips give only an upper bound. The sum of flipped values has mean 0, variance
    # Σd², and is nearly normal for many users. z is at most √N, so few users cannot give a smaller p than the flips.
    z = abs(values.sum()) / math.sqrt(np.square(values).sum())
    return min(p, float(2 * ndtr(-z)))


def _interval(differences: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Percentiles of each mean of [M, S, N] under a bootstrap over both users and seeds.
    Each draw takes S − 1 seeds and N − 1 users: drawing all S would understate the variance between seeds by
    (S − 1) / S. The noise of one user in one seed is counted twice, so intervals are rather too wide."""
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
    """[rows, size]: the weights of draws with replacement. Counting draws is faster than a multinomial."""
    drawn = max(1, size - 1)
    picks = rng.integers(size, size=(rows, drawn)) + np.arange(rows)[:, None] * size
    return np.bincount(picks.ravel(), minlength=rows * size).reshape(rows, size) / drawn


def _effect(values: Floats) -> float:
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    if sd > ROUNDING:
        return mean / sd
    return math.copysign(math.inf, mean) if abs(mean) > ROUNDING else 0.0
