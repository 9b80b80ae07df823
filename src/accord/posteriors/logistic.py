"""Logistic regression on labelled pairs, with an effect for every user and item that shrinks towards what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

START_WEIGHT, START_PENALTY = 0.3, 10.0  # of the label-free column: where its weight is drawn to, and how strongly
LEAST, MOST = 0.1, 3e4  # penalties
OFF, ON = MOST, 100.0  # of tastes: none are learned, and where the search goes from there
PENALTIES = (30.0, 100.0, 100.0, 100.0, 3.0, 3.0, OFF, OFF)  # where it starts: see `Penalties`
STRONGER = 10.0  # times these it starts from, where that is better: labels that tell little
OF_USERS, OF_ITEMS = 1, 2  # the groups of features that are factors of users, and of items
TASTES = 8  # factors along which a user, or an item, has weights of its own
STEPS = (4.0, 2.0)  # factors that a penalty is moved by
ENOUGH = 1e-4  # of log loss that a move must gain
SURE, SURE_OF_TASTES = 1.0, 2.0  # standard errors that it must gain too, and one to more tastes: chance offers many
ITERATIONS = 200
ROWS_AT_ONCE = 2**17

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]
Penalties = tuple[float, ...]
"""Of each group of features, of the effects of users and of items, of the tastes of users and of items."""


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
    """logit = intercept + features weights + effect and taste of the user + effect and taste of the item.

    A user's taste is weights of its own for the factors of items, an item's for those of users.
    """

    intercept: float
    weights: Floats  # [1 + p]
    user: Floats  # [U, 1 + k]: effect and taste, 0 for who has no label
    item: Floats  # [I, 1 + k]
    along: tuple[Rows, Rows]  # the columns of the features that are the factors

    def logits(self, features: Floats, users: Rows, items: Rows) -> Floats:
        own = (
            _weighed(features, *part) for part in zip(self.along, (self.user, self.item), (users, items), strict=True)
        )
        return np.asarray(self.intercept + features @ self.weights + sum(own))


@dataclass(frozen=True)
class Spread:
    """How unsure a fit is, by Laplace's approximation with effects and tastes taken as independent."""

    covariance: Floats  # [2 + p, 2 + p] of intercept and weights
    user: Floats  # [U, 1 + k] variances of effect and taste
    item: Floats  # [I, 1 + k]
    along: tuple[Rows, Rows]

    def variances(self, features: Floats, users: Rows, items: Rows) -> Floats:
        """Of the logits."""
        ones = np.column_stack([np.ones(len(features)), features])
        whole = np.einsum("ij,ij->i", ones @ self.covariance, ones)
        own = (
            _weighed(features**2, *part)
            for part in zip(self.along, (self.user, self.item), (users, items), strict=True)
        )
        return np.asarray(whole + sum(own))


def _weighed(features: Floats, along: Rows, table: Floats, rows: Rows) -> Floats:
    """Effect and taste of each row of the table, [rows, 1 + k], at these features: [n]."""
    own = table[rows]
    return np.asarray(own[:, 0] + np.einsum("nk,nk->n", features[:, along], own[:, 1:]))


def _along(groups: Rows, penalties: Penalties) -> tuple[Rows, Rows]:
    """The columns of the features that tastes of users, and of items, are along; none where they are off."""
    sides = zip((OF_ITEMS, OF_USERS), penalties[-2:], strict=True)
    first, second = (1 + np.flatnonzero(groups == side)[: TASTES if own < OFF else 0] for side, own in sides)
    return first, second


def fit(
    pairs: Pairs, groups: Rows, penalties: Penalties, num_users: int, num_items: int, near: Fitted | None = None
) -> Fitted:
    """The weights with the highest posterior density; `groups` [p] says which penalty a feature has.

    `near`: a fit to start from.
    """
    from scipy.optimize import minimize  # slow to import
    from scipy.sparse import csr_matrix

    z, y, size = pairs.features, pairs.labels, len(pairs)
    along = _along(groups, penalties)
    sides = [np.unique(rows, return_inverse=True) for rows in (pairs.users, pairs.items)]
    own = [np.column_stack([np.ones(size), z[:, columns]]) for columns in along]  # [n, 1 + k]
    adding = [csr_matrix((np.ones(size), (place, np.arange(size))), shape=(len(rows), size)) for rows, place in sides]
    shapes = [(len(rows), values.shape[1]) for (rows, _), values in zip(sides, own, strict=True)]
    ends = np.cumsum([1, z.shape[1], *(rows * width for rows, width in shapes)])
    penalty = np.concatenate([_of_features(groups, penalties), *(
        np.broadcast_to(_of_own(penalties, side, shape[1]), shape).ravel() for side, shape in enumerate(shapes)
    )])  # fmt: skip
    middle = np.zeros(ends[-1])
    middle[1] = START_WEIGHT
    start = middle.copy()
    share = (y.sum() + 0.5) / (size + 1)
    start[0] = np.log(share / (1 - share))
    if near is not None:
        before = (
            _widened(table[rows], width).ravel()
            for table, (rows, _), (_, width) in zip((near.user, near.item), sides, shapes, strict=True)
        )
        start = np.concatenate([[near.intercept], near.weights, *before])

    def tables(w: Floats) -> list[Floats]:
        return [w[ends[1 + side] : ends[2 + side]].reshape(shape) for side, shape in enumerate(shapes)]

    def sums(values: Floats, features: Floats, own: list[Floats]) -> Floats:
        """Of values over the pairs of each coefficient."""
        each = (np.asarray(add @ (values[:, None] * part)).ravel() for add, part in zip(adding, own, strict=True))
        return np.concatenate([[values.sum()], features.T @ values, *each])

    curvature = np.full(size, share * (1 - share))
    scale = 1 / np.sqrt(penalty + sums(curvature, z * z, [part * part for part in own]))

    def loss(scaled: Floats) -> tuple[float, Floats]:
        w = scaled * scale
        eta = w[0] + z @ w[1 : ends[1]]
        for part, table, (_, place) in zip(own, tables(w), sides, strict=True):
            eta += np.einsum("nk,nk->n", part, table[place])
        away = w - middle
        value = np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * away**2)
        return float(value), (sums(expit(eta) - y, z, own) + penalty * away) * scale

    options = {"maxiter": ITERATIONS, "maxfun": ITERATIONS + 20, "gtol": 1e-3 * np.sqrt(size), "ftol": 1e-8}
    found = minimize(loss, start / scale, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    best = found.x * scale
    user, item = (
        _laid_out(rows, table, number)
        for (rows, _), table, number in zip(sides, tables(best), (num_users, num_items), strict=True)
    )
    return Fitted(float(best[0]), best[1 : ends[1]], user, item, along)


def spread(model: Fitted, pairs: Pairs, groups: Rows, penalties: Penalties) -> Spread:
    """Of a fit to these pairs with these penalties."""
    chance = expit(model.logits(pairs.features, pairs.users, pairs.items))
    curvature = chance * (1 - chance)
    hessian = np.diag(_of_features(groups, penalties))
    for start in range(0, len(pairs), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        ones = np.column_stack([np.ones(len(curvature[part])), pairs.features[part]])
        hessian += (ones * curvature[part, None]).T @ ones
    own = []
    for side, (rows, table) in enumerate(((pairs.users, model.user), (pairs.items, model.item))):
        squares = [np.ones(len(pairs)), *(pairs.features[:, column] ** 2 for column in model.along[side])]
        known = np.column_stack([np.bincount(rows, curvature * square, len(table)) for square in squares])
        own.append(1 / (_of_own(penalties, side, len(squares)) + known))
    return Spread(np.linalg.inv(hessian).astype(np.float64), own[0], own[1], model.along)


def _of_features(groups: Rows, penalties: Penalties) -> Floats:
    """Penalties of the intercept, of the label-free column and of every other feature: [2 + p]."""
    return np.concatenate([[1e-6, START_PENALTY], np.asarray(penalties[:-4])[groups]])


def _of_own(penalties: Penalties, side: int, width: int) -> Floats:
    """Penalties of the effect and the taste of a user (side 0) or an item (1): [1 + k]."""
    effect, taste = penalties[side - 4], penalties[side - 2]
    return np.array([effect, *[taste] * (width - 1)])


def _laid_out(rows: Rows, values: Floats, size: int) -> Floats:
    found = np.zeros((size, values.shape[1]))
    found[rows] = values
    return found


def _widened(table: Floats, width: int) -> Floats:
    """With so many columns: 0 in those that are new."""
    found, kept = np.zeros((len(table), width)), min(width, table.shape[1])
    found[:, :kept] = table[:, :kept]
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
    """Penalties whose held-out log loss no step of one of them surely improves, and the logits held out with them by
    the last of the folds: [n]. `folds`: ways to hold labels out, each with what its loss counts for."""
    near: list[dict[int, Fitted]] = [{} for _ in folds]

    def judged(penalties: Penalties) -> tuple[float, Floats]:
        loss = 0.0
        for (share, fold), own in zip(folds, near, strict=True):
            logits = held_out(pairs, groups, penalties, fold, shape, own)
            loss += share * float(losses(logits, pairs.labels).mean())
        return loss, logits

    stronger = (*(min(STRONGER * own, MOST) for own in start[:-2]), *start[-2:])
    best, (least, logits) = min(((own, judged(own)) for own in (tuple(start), stronger)), key=lambda one: one[1][0])
    for step in STEPS:
        for place in range(len(best)):
            for factor in (step, 1 / step):
                while True:
                    off = place >= len(best) - 2 and best[place] == OFF
                    moved = ON if off and factor < 1 else float(np.clip(best[place] * factor, LEAST, MOST))
                    if moved == best[place]:
                        break
                    tried = (*best[:place], moved, *best[place + 1 :])
                    loss, found = judged(tried)
                    gains = losses(logits, pairs.labels) - losses(found, pairs.labels)
                    sure = SURE_OF_TASTES if place >= len(best) - 2 and factor < 1 else SURE
                    if loss >= least - max(ENOUGH, sure * float(gains.std()) / np.sqrt(len(pairs))):
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
