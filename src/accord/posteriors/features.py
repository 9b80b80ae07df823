"""Features of every interaction that need no labels: counts, factors, scores of families and where they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from accord.data.csr import Floats, Rows
from accord.posteriors.leave_one_out import NONE, Family, LowRank, Outside, families, low_rank

FACTORS = 24
SAMPLED = 200_000  # interactions that means, spreads and limits are taken from
TAIL = 0.005  # values beyond this quantile, on either side, are clipped to it

GROUPS = ("counts and scores", "user factors", "item factors", "products", "attributes")  # each has its penalty
BINS = 50  # of the density of percentiles, where there are enough pairs
LOWEST = 0.1  # share of the percentiles, from the bottom, that hold hardly any real preference
MOST_FITTED = 50_000  # interactions, and as many random pairs, that two families are combined by
PENALTY = 1.0
APART = 5.0  # the feature of pairs outside the log: as large as to cost little penalty, since they were drawn otherwise


@dataclass(frozen=True)
class Features:
    """Features of a log's interactions and, after these, of pairs outside it; computed for some of them at a time."""

    observed: int  # how many are of the log
    alike: int  # how many, from the first, were drawn as the log is
    users: Rows  # [n]
    items: Rows
    activity: Rows  # [U]
    popularity: Rows  # [I]
    factors: LowRank
    families: list[Family]
    opinions: Floats  # [families, n] chance of being real by each family alone
    prior: Floats  # [n] their mean, as a normal score
    limits: tuple[Floats, Floats]  # of each raw feature
    moments: tuple[Floats, Floats]  # mean within the limits, and the scale
    groups: Rows  # [p] index into GROUPS of each feature
    content: Floats  # [I, c] what attributes say of items

    @classmethod
    def of(cls, x: Any, outside: Outside = NONE, alike: int = 0, attributes: Any = None) -> Features:
        """x [U, I]: CSR of ones, rows sorted. `alike`: how many are as the log is. `attributes` [I, F]: sparse."""
        factors = low_rank(x, FACTORS)
        told = low_rank(x[:0].T if attributes is None else attributes, FACTORS)
        models = families(x, factors, outside)
        opinions = np.stack([chance_of_real(one.percentiles, one.percentiles[: x.nnz]) for one in models])
        mean = opinions.mean(0)
        order = np.argsort(mean, kind="stable")
        _, first, sizes = np.unique(mean[order], return_index=True, return_counts=True)
        prior = np.empty(len(mean))
        prior[order] = np.repeat(ndtri((first + sizes / 2) / len(mean)), sizes)
        users = np.append(np.repeat(np.arange(x.shape[0], dtype=np.int32), np.diff(x.indptr)), outside[0])
        counts = np.diff(x.indptr), np.bincount(x.indices, minlength=x.shape[1])
        raw = cls(
            x.nnz, max(alike, x.nnz), users, np.append(x.indices, outside[1]), *counts, factors, models, opinions,
            prior=prior, limits=(np.array(-np.inf), np.array(np.inf)), moments=(np.array(0.0), np.array(1.0)),
            groups=np.zeros(0, np.int64), content=told.user * told.values,
        )  # fmt: skip
        return raw._scaled()

    def _scaled(self) -> Features:
        """These with limits and moments from a sample of the interactions."""
        size = self.observed
        some = np.sort(np.random.default_rng(0).permutation(size)[:SAMPLED]) if size > SAMPLED else np.arange(size)
        raw, groups = self._raw(some)
        low, high = np.quantile(raw, [TAIL, 1 - TAIL], axis=0)
        raw = np.clip(raw, low, high)
        mean, spread = raw.mean(0), raw.std(0)
        # the less a factor explains of the log, the less it is expected to tell what is real; the first is of no use
        values = self.factors.values
        spreads = np.minimum(values / max(values[1] if len(values) > 1 else 1.0, 1e-12), 1) ** 2
        told = spread[groups == 4] / spread[groups == 4].max(initial=1e-12)
        target = np.concatenate([np.ones((groups == 0).sum()), *[spreads] * 3, told])
        varies = spread > 1e-6 * np.abs(mean)  # the first factor only repeats activity and popularity
        scale = np.divide(spread, target, out=np.full_like(spread, np.inf), where=varies & (target > 0))
        if self.alike < len(self):
            groups = np.append(groups, 0)
        return Features(**vars(self) | {"limits": (low, high), "groups": groups, "moments": (mean, scale)})

    def __len__(self) -> int:
        return len(self.users)

    def block(self, rows: Rows) -> Floats:
        """Features of some interactions: over the log of mean 0 and standard deviation 1, less for factors: [B, p]."""
        raw, _ = self._raw(rows)
        np.clip(raw, *self.limits, out=raw)
        raw -= self.moments[0]
        raw /= self.moments[1]
        return np.column_stack([raw, APART * (rows >= self.alike)]) if self.alike < len(self) else raw

    def _raw(self, rows: Rows) -> tuple[Floats, Rows]:
        users, items = self.users[rows], self.items[rows]
        outside = rows >= self.observed  # as if they were in the log
        activity, popularity = (
            (counts + outside).astype(np.float64) for counts in (self.activity[users], self.popularity[items])
        )
        active, popular = np.log1p(activity), np.log1p(popularity)
        parts = [active, popular, active * popular, active**2, popular**2]
        standard = []
        for family in self.families[1:]:  # popularity is a feature already
            scores = family.scores[rows]
            standard.append(normal_score(family.percentiles[rows]))
            parts += [scores, scores / activity, scores / np.sqrt(activity), scores / np.sqrt(popularity), standard[-1]]
        one, other = standard
        parts += [np.abs(one - other), one * other, one**2, other**2]
        scale = np.sqrt(len(self.users))
        user = self.factors.user[users] * (scale / np.sqrt(activity))[:, None]
        item = self.factors.item[items] * (scale / np.sqrt(popularity))[:, None]
        groups = np.repeat(np.arange(5), [len(parts), *[user.shape[1]] * 3, self.content.shape[1]])
        return np.column_stack([*parts, user, item, user * item, self.content[items]]), groups


def chance_of_real(percentile: Floats, density_of: Floats | None = None) -> Floats:
    """The probability that an interaction is a real preference, from its percentile, over many interactions.
    Percentiles of noise are uniform, those of real preferences lie high. Their density d rises, so the lowest
    percentiles hold nothing but noise: the height there is the share π of noise, and at any percentile the chance of
    being noise is π / d (the local false discovery rate). `density_of`: percentiles to estimate d from, if others."""
    from scipy.optimize import isotonic_regression

    bins = int(np.clip(len(percentile) // 100, 10, BINS))
    counts, _ = np.histogram(percentile if density_of is None else density_of, bins=bins, range=(0.0, 1.0))
    density = isotonic_regression(counts / len(percentile) * bins).x
    rate = min(1.0, float(density[: max(1, round(LOWEST * bins))].mean()))
    middles = (np.arange(bins) + 0.5) / bins
    height = np.interp(percentile, middles, density)
    real: Floats = 1 - np.minimum(1.0, rate / np.maximum(height, 1e-12))
    return real


def normal_score(percentiles: Floats) -> Floats:
    """What a standard normal variable has at these percentiles, within about three standard deviations."""
    scores: Floats = ndtri(np.clip(percentiles, 1e-3, 1 - 1e-3))
    return scores


def opinions_of_pairs(families: Sequence[Family], observed: int | None = None) -> Floats:
    """Label-free p_real by every two families: [pairs of families, n].
    One family alone mistakes what it does not model for noise, and the mean over families dilutes the best of them. Two
    are weighed by a logistic regression that tells interactions of the log from random pairs."""
    return np.stack([_by_two(one, other, observed) for one, other in combinations(families, 2)])


def _by_two(one: Family, other: Family, observed: int | None) -> Floats:
    interactions, pairs = (
        np.column_stack([normal_score(getattr(family, name)) for family in (one, other)])
        for name in ("percentiles", "random")
    )
    rng = np.random.default_rng(0)
    size = min(MOST_FITTED, len(interactions[:observed]), len(pairs))
    weights = _tell_apart(*(rng.permutation(values)[:size] for values in (interactions[:observed], pairs)))
    scores, null = interactions @ weights, np.sort(pairs @ weights)
    below, up_to = (np.searchsorted(null, scores, side) for side in ("left", "right"))
    size = max(len(null), 1)
    spread = (below + rng.random(len(scores)) * (up_to - below)) / size  # ties lie anywhere between, as those of noise
    return chance_of_real((below + up_to) / 2 / size, spread[:observed])


def _tell_apart(first: Floats, second: Floats) -> Floats:
    """Weights of a logistic regression with an intercept that tells two samples [n, 2] of equal size apart: [2]."""
    from scipy.optimize import minimize

    x = np.column_stack([np.ones(2 * len(first)), np.concatenate([first, second])])
    y = np.repeat([1.0, 0.0], len(first))
    penalty = np.array([1e-6, PENALTY, PENALTY])

    def loss(w: Floats) -> tuple[float, Floats]:
        eta = x @ w
        value = np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * w**2)
        return float(value), x.T @ (expit(eta) - y) + penalty * w

    fitted = minimize(loss, np.array([0.0, 0.5, 0.5]), jac=True, method="L-BFGS-B")
    return np.asarray(fitted.x[1:])
