"""Logistic regression on labelled pairs, with an effect for every user and item that shrinks towards what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

START_WEIGHT, START_PENALTY = 0.3, 10.0  # of the label-free column: where its weight is drawn to, and how strongly
PENALTIES = (30.0, 100.0, 100.0, 100.0, 3.0, 3.0)  # where the search starts: the groups of features, users, items
LEAST, MOST = 0.1, 3e4  # penalties
STEPS = (4.0, 2.0)  # factors that a penalty is moved by
ENOUGH = 1e-4  # of log loss that a move must gain
ITERATIONS = 200
ROWS_AT_ONCE = 2**17

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]
Penalties = tuple[float, ...]


@dataclass(frozen=True)
class Pairs:
    """Labelled pairs: features [n, 1 + p] of which the first is label-free p_real, users, items, labels in 0..1 [n]."""

    features: Floats
    users: Rows
    items: Rows
    labels: Floats

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: npt.NDArray[Any]) -> Pairs:
        return Pairs(self.features[rows], self.users[rows], self.items[rows], self.labels[rows])


@dataclass(frozen=True)
class Fitted:
    """logit = intercept + features weights + effect of the user + effect of the item."""

    intercept: float
    weights: Floats  # [1 + p]
    user: Floats  # [U], 0 for who has no label
    item: Floats  # [I]

    def logits(self, features: Floats, users: Rows, items: Rows) -> Floats:
        return np.asarray(self.intercept + features @ self.weights + self.user[users] + self.item[items])


@dataclass(frozen=True)
class Spread:
    """How unsure a fit is, by Laplace's approximation with the effects taken as independent."""

    covariance: Floats  # [2 + p, 2 + p] of intercept and weights
    user: Floats  # [U] variance of the effect
    item: Floats  # [I]

    def variances(self, features: Floats, users: Rows, items: Rows) -> Floats:
        """Of the logits."""
        ones = np.column_stack([np.ones(len(features)), features])
        own = np.einsum("ij,ij->i", ones @ self.covariance, ones)
        return np.asarray(own + self.user[users] + self.item[items])


def fit(
    pairs: Pairs, groups: Rows, penalties: Penalties, num_users: int, num_items: int, near: Fitted | None = None
) -> Fitted:
    """The weights with the highest posterior density; `groups` [p] says which penalty a feature has.

    `near`: a fit to start from.
    """
    z, y, p = pairs.features, pairs.labels, pairs.features.shape[1]
    users, of_user = np.unique(pairs.users, return_inverse=True)
    items, of_item = np.unique(pairs.items, return_inverse=True)
    ends = np.cumsum([1, p, len(users), len(items)])
    penalty = np.concatenate(
        [_of_features(groups, penalties), np.full(len(users), penalties[-2]), np.full(len(items), penalties[-1])]
    )
    middle = np.zeros(ends[-1])
    middle[1] = START_WEIGHT
    start = middle.copy()
    share = (y.sum() + 0.5) / (len(y) + 1)
    start[0] = np.log(share / (1 - share))
    if near is not None:
        start = np.concatenate([[near.intercept], near.weights, near.user[users], near.item[items]])

    def sums(values: Floats, features: Floats) -> Floats:
        """Of values over the pairs of each coefficient."""
        effects = np.bincount(of_user, values, len(users)), np.bincount(of_item, values, len(items))
        return np.concatenate([[values.sum()], features.T @ values, *effects])

    scale = 1 / np.sqrt(penalty + sums(np.full(len(y), share * (1 - share)), z * z))

    def loss(scaled: Floats) -> tuple[float, Floats]:
        w = scaled * scale
        eta = w[0] + z @ w[1 : ends[1]] + w[ends[1] : ends[2]][of_user] + w[ends[2] :][of_item]
        away = w - middle
        value = np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * away**2)
        return float(value), (sums(expit(eta) - y, z) + penalty * away) * scale

    options = {"maxiter": ITERATIONS, "maxfun": ITERATIONS + 20, "gtol": 1e-3 * np.sqrt(len(y)), "ftol": 1e-8}
    from scipy.optimize import minimize  # slow to import

    found = minimize(loss, start / scale, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    best = found.x * scale
    effects = (
        _laid_out(users, best[ends[1] : ends[2]], num_users, 0.0),
        _laid_out(items, best[ends[2] :], num_items, 0.0),
    )
    return Fitted(float(best[0]), best[1 : ends[1]], *effects)


def spread(model: Fitted, pairs: Pairs, groups: Rows, penalties: Penalties) -> Spread:
    """Of a fit to these pairs with these penalties."""
    chance = expit(model.logits(pairs.features, pairs.users, pairs.items))
    curvature = chance * (1 - chance)
    hessian = np.diag(_of_features(groups, penalties))
    for start in range(0, len(pairs), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        ones = np.column_stack([np.ones(len(curvature[part])), pairs.features[part]])
        hessian += (ones * curvature[part, None]).T @ ones
    variances = (
        1 / (penalty + np.bincount(rows, curvature, len(effects)))
        for rows, effects, penalty in (
            (pairs.users, model.user, penalties[-2]),
            (pairs.items, model.item, penalties[-1]),
        )
    )
    return Spread(np.linalg.inv(hessian).astype(np.float64), *variances)


def _of_features(groups: Rows, penalties: Penalties) -> Floats:
    """Penalties of the intercept, of the label-free column and of every other feature: [2 + p]."""
    return np.concatenate([[1e-6, START_PENALTY], np.asarray(penalties[:-2])[groups]])


def _laid_out(rows: Rows, values: Floats, size: int, otherwise: float) -> Floats:
    found = np.full(size, otherwise)
    found[rows] = values
    return found


def losses(logits: Floats, labels: Floats) -> Floats:
    return np.asarray(np.logaddexp(0, logits) - labels * logits)


def held_out(
    pairs: Pairs, groups: Rows, penalties: Penalties, fold: Rows, shape: tuple[int, int],
    near: dict[int, Fitted] | None = None,
) -> Floats:  # fmt: skip
    """Logits of every pair by a fit on the other folds: [n]. `near`: fits to start from, replaced by these."""
    found = np.empty(len(pairs))
    near = {} if near is None else near
    for number in np.unique(fold).tolist():
        there = fold == number
        model = near[number] = fit(pairs.take(~there), groups, penalties, *shape, near.get(number))
        own = pairs.take(there)
        found[there] = model.logits(own.features, own.users, own.items)
    return found


def best_penalties(
    pairs: Pairs, groups: Rows, folds: Sequence[tuple[float, Rows]], shape: tuple[int, int],
    start: Sequence[float] = PENALTIES,
) -> tuple[Penalties, Floats]:  # fmt: skip
    """Penalties whose held-out log loss no step of one of them improves, and the logits held out with them by the last
    of the folds: [n]. `folds`: ways to hold labels out, each with what its loss counts for."""
    near: list[dict[int, Fitted]] = [{} for _ in folds]

    def judged(penalties: Penalties) -> tuple[float, Floats]:
        loss = 0.0
        for (share, fold), own in zip(folds, near, strict=True):
            logits = held_out(pairs, groups, penalties, fold, shape, own)
            loss += share * float(losses(logits, pairs.labels).mean())
        return loss, logits

    best = tuple(start)
    least, logits = judged(best)
    for step in STEPS:
        for place in range(len(best)):
            for factor in (step, 1 / step):
                while True:
                    moved = float(np.clip(best[place] * factor, LEAST, MOST))
                    if moved == best[place]:
                        break
                    tried = (*best[:place], moved, *best[place + 1 :])
                    loss, found = judged(tried)
                    if loss >= least - ENOUGH:
                        break
                    best, least, logits = tried, loss, found
    return best, logits


def calibrated(logits: Floats, labels: Floats) -> tuple[float, float]:
    """Shift and slope that bring held-out logits closest to the labels; the slope is drawn to 1 where these are few."""
    ones = np.column_stack([np.ones(len(labels)), logits])
    w, drawn = np.array([0.0, 1.0]), np.array([1e-6, 5.0])
    for _ in range(25):
        chance = expit(ones @ w)
        slope = ones.T @ (chance - labels) + drawn * (w - [0.0, 1.0])
        hessian = (ones * (chance * (1 - chance))[:, None]).T @ ones + np.diag(drawn)
        w = w - np.linalg.solve(hessian, slope)
    return float(w[0]), float(w[1])
