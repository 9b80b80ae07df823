"""What is known of every interaction without labels: counts, factors, scores of families and where they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from accord.posteriors.leave_one_out import Family, LowRank, families, low_rank
from accord.posteriors.local_fdr import chance_of_real

FACTORS = 24
SAMPLED = 200_000  # interactions that means, spreads and limits are taken from
TAIL = 0.005  # what lies further out than all but this share counts as lying there

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]
GROUPS = ("counts and scores", "user factors", "item factors", "products")  # each has a penalty of its own


@dataclass(frozen=True)
class Features:
    """Features of a log's interactions, made for as many at a time as are asked for."""

    users: Rows  # [n]
    items: Rows
    activity: Rows  # [U]
    popularity: Rows  # [I]
    factors: LowRank
    families: list[Family]
    opinions: Floats  # [families, n]: the label-free chance of being real, by each
    prior: Floats  # [n]: their mean, as a normal score: its order is that of the label-free p_real
    limits: tuple[Floats, Floats]  # of each raw feature
    moments: tuple[Floats, Floats]  # mean within the limits, and what values less the mean are divided by
    groups: Rows  # [p] place of each feature in GROUPS

    @classmethod
    def of(cls, x: Any) -> Features:
        """x [U, I]: CSR of ones, rows sorted."""
        factors = low_rank(x, FACTORS)
        found = families(x, factors)
        opinions = np.stack([chance_of_real(family.percentiles) for family in found])
        mean = opinions.mean(0)
        order = np.argsort(mean, kind="stable")
        _, first, sizes = np.unique(mean[order], return_index=True, return_counts=True)
        prior = np.empty(x.nnz)
        prior[order] = np.repeat(ndtri((first + sizes / 2) / x.nnz), sizes)
        users = np.repeat(np.arange(x.shape[0], dtype=np.int32), np.diff(x.indptr))
        counts = np.diff(x.indptr), np.bincount(x.indices, minlength=x.shape[1])
        raw = cls(
            users, x.indices, *counts, factors, found, opinions, prior,
            limits=(np.array(-np.inf), np.array(np.inf)), moments=(np.array(0.0), np.array(1.0)),
            groups=np.zeros(0, np.int64),
        )  # fmt: skip
        return raw._scaled()

    def _scaled(self) -> Features:
        """With limits and moments, from a sample of the interactions."""
        size = len(self.users)
        some = np.sort(np.random.default_rng(0).permutation(size)[:SAMPLED]) if size > SAMPLED else np.arange(size)
        raw, groups = self._raw(some)
        low, high = np.quantile(raw, [TAIL, 1 - TAIL], axis=0)
        raw = np.clip(raw, low, high)
        mean, spread = raw.mean(0), raw.std(0)
        wanted = np.concatenate([np.ones((groups == 0).sum()), *[_spreads(self.factors.values)] * 3])
        some_spread = spread > 1e-6 * np.abs(mean)  # the first factor says nothing but how active and popular
        scale = np.divide(spread, wanted, out=np.full_like(spread, np.inf), where=some_spread & (wanted > 0))
        return Features(**vars(self) | {"limits": (low, high), "groups": groups, "moments": (mean, scale)})

    def __len__(self) -> int:
        return len(self.users)

    def block(self, rows: Rows) -> Floats:
        """The features of some interactions, each of mean 0 over the log, and of spread 1, factors of less: [B, p]."""
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
        for family in self.families[1:]:  # popularity itself is there already
            scores = family.scores[rows]
            each = scores / activity
            parts += [
                scores,
                each,
                scores / np.sqrt(activity),
                scores / np.sqrt(popularity),
                ndtri(_inside(family.percentiles[rows])),
            ]
            standard.append(parts[-1])
        one, other = standard
        parts += [np.abs(one - other), one * other, one**2, other**2]
        scale = np.sqrt(len(self.users))
        user = self.factors.user[users] * (scale / np.sqrt(activity))[:, None]
        item = self.factors.item[items] * (scale / np.sqrt(popularity))[:, None]
        groups = np.repeat(np.arange(4), [len(parts), *[user.shape[1]] * 3])
        return np.column_stack([*parts, user, item, user * item]), groups


def _spreads(values: Floats) -> Floats:
    """Of factors with these singular values, beside the second, as the first is of no use: the less a factor explains
    of the log, the less it is expected to tell of what is real."""
    second = values[1] if len(values) > 1 else 1.0
    return np.asarray(np.minimum(values / max(second, 1e-12), 1) ** 2)


def _inside(percentiles: Floats) -> Floats:
    return np.clip(percentiles, 1e-3, 1 - 1e-3)
