"""Features of every interaction that need no labels: counts, factors, scores of families and where they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from accord.posteriors.label_free import chance_of_real, normal_score
from accord.posteriors.leave_one_out import Family, LowRank, families, low_rank

FACTORS = 24
SAMPLED = 200_000  # interactions that means, spreads and limits are taken from
TAIL = 0.005  # values beyond this quantile, on either side, are clipped to it

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]
GROUPS = ("counts and scores", "user factors", "item factors", "products")  # each has its penalty


@dataclass(frozen=True)
class Features:
    """Features of a log's interactions, computed for some of them at a time."""

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

    @classmethod
    def of(cls, x: Any) -> Features:
        """x [U, I]: CSR of ones, rows sorted."""
        factors = low_rank(x, FACTORS)
        models = families(x, factors)
        opinions = np.stack([chance_of_real(family.percentiles) for family in models])
        mean = opinions.mean(0)
        order = np.argsort(mean, kind="stable")
        _, first, sizes = np.unique(mean[order], return_index=True, return_counts=True)
        prior = np.empty(x.nnz)
        prior[order] = np.repeat(ndtri((first + sizes / 2) / x.nnz), sizes)
        users = np.repeat(np.arange(x.shape[0], dtype=np.int32), np.diff(x.indptr))
        counts = np.diff(x.indptr), np.bincount(x.indices, minlength=x.shape[1])
        raw = cls(
            users, x.indices, *counts, factors, models, opinions, prior,
            limits=(np.array(-np.inf), np.array(np.inf)), moments=(np.array(0.0), np.array(1.0)),
            groups=np.zeros(0, np.int64),
        )  # fmt: skip
        return raw._scaled()

    def _scaled(self) -> Features:
        """These with limits and moments from a sample of the interactions."""
        size = len(self.users)
        some = np.sort(np.random.default_rng(0).permutation(size)[:SAMPLED]) if size > SAMPLED else np.arange(size)
        raw, groups = self._raw(some)
        low, high = np.quantile(raw, [TAIL, 1 - TAIL], axis=0)
        raw = np.clip(raw, low, high)
        mean, spread = raw.mean(0), raw.std(0)
        target = np.concatenate([np.ones((groups == 0).sum()), *[_spreads(self.factors.values)] * 3])
        varies = spread > 1e-6 * np.abs(mean)  # the first factor only repeats activity and popularity
        scale = np.divide(spread, target, out=np.full_like(spread, np.inf), where=varies & (target > 0))
        return Features(**vars(self) | {"limits": (low, high), "groups": groups, "moments": (mean, scale)})

    def __len__(self) -> int:
        return len(self.users)

    def block(self, rows: Rows) -> Floats:
        """Features of some interactions: over the log of mean 0 and standard deviation 1, less for factors: [B, p]."""
        raw, _ = self._raw(rows)
        np.clip(raw, *self.limits, out=raw)
        raw -= self.moments[0]
        raw /= self.moments[1]
        return raw

    def _raw(self, rows: Rows) -> tuple[Floats, Rows]:
        users, items = self.users[rows], self.items[rows]
        activity, popularity = (counts.astype(np.float64) for counts in (self.activity[users], self.popularity[items]))
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
        groups = np.repeat(np.arange(4), [len(parts), *[user.shape[1]] * 3])
        return np.column_stack([*parts, user, item, user * item]), groups


def _spreads(values: Floats) -> Floats:
    """Standard deviations of factors with these singular values: the less a factor explains of the log, the less it is
    expected to tell what is real. Relative to the second, as the first is of no use."""
    second = values[1] if len(values) > 1 else 1.0
    return np.asarray(np.minimum(values / max(second, 1e-12), 1) ** 2)
