"""Logistic regression on labelled pairs, with a shrunken effect for every user and item."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit
from threadpoolctl import ThreadpoolController

from accord.data.csr import Floats, Rows

START_WEIGHT, START_PENALTY = 0.3, 10.0  # of the label-free column: the weight that it shrinks to, and how strongly
LEAST, MOST = 0.1, 3e4  # penalties
OFF, ON = MOST, 100.0  # of tastes: none are learned, and where the search goes from there
PENALTIES = (30.0, 100.0, 100.0, 100.0, 100.0, 3.0, 3.0, OFF, OFF)  # where the search starts: see `Penalties`
STRONGER = 10.0  # the search starts from penalties this many times stronger where that is better
OF_USERS, OF_ITEMS = 1, 2  # the groups of features that are factors of users, and of items
TASTES = 8  # factors that a user, or an item, has individual weights for
STEPS = (4.0, 2.0)  # factors that a penalty is moved by
ENOUGH = 1e-4  # log loss that a move must gain
SURE, SURE_OF_TASTES = 1.0, 2.0  # standard errors that it must gain too; more for tastes, as chance offers many
ITERATIONS = 200
ROWS_AT_ONCE = 2**17

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
    The taste of a user is individual weights for the factors of items, that of an item for the factors of users."""

    intercept: float
    weights: Floats  # [1 + p]
    user: Floats  # [U, 1 + k]: effect and taste, 0 for users without labels
    item: Floats  # [I, 1 + k]
    factors: tuple[Rows, Rows]  # the columns of the features that tastes of users, and of items, weigh

    def logits(self, features: Floats, users: Rows, items: Rows) -> Floats:
        return np.asarray(self.intercept + features @ self.weights + _individual(self, features, users, items))


@dataclass(frozen=True)
class Spread:
    """How uncertain a fit is, by Laplace's approximation with effects and tastes taken as independent."""

    covariance: Floats  # [2 + p, 2 + p] of intercept and weights
    user: Floats  # [U, 1 + k] variances of effect and taste
    item: Floats  # [I, 1 + k]
    factors: tuple[Rows, Rows]

    def variances(self, features: Floats, users: Rows, items: Rows) -> Floats:
        ones = np.column_stack([np.ones(len(features)), features])
        common = np.einsum("ij,ij->i", ones @ self.covariance, ones)
        return np.asarray(common + _individual(self, features**2, users, items))


def _individual(tables: Fitted | Spread, features: Floats, users: Rows, items: Rows) -> Any:
    """What the effects and tastes of users and items add at these features: [n]."""
    parts = []
    for columns, table, rows in zip(tables.factors, (tables.user, tables.item), (users, items), strict=True):
        values = table[rows]
        parts.append(np.asarray(values[:, 0] + np.einsum("nk,nk->n", features[:, columns], values[:, 1:])))
    return sum(parts)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def _factor_columns(groups: Rows, penalties: Penalties) -> tuple[Rows, Rows]:
    """The columns of the features that tastes of users, and of items, weigh; none where tastes are off."""
    sides = zip((OF_ITEMS, OF_USERS), penalties[-2:], strict=True)
    first, second = (1 + np.flatnonzero(groups == side)[: TASTES if penalty < OFF else 0] for side, penalty in sides)
    return first, second


def fit(
    pairs: Pairs, groups: Rows, penalties: Penalties, num_users: int, num_items: int, start_from: Fitted | None = None
) -> Fitted:
    """The weights with the highest posterior density; `groups` [p] says which penalty a feature has."""
    from scipy.optimize import minimize  # slow to import
    from scipy.sparse import csr_matrix

    z, y, size = pairs.features, pairs.labels, len(pairs)
    factors = _factor_columns(groups, penalties)
    sides = [np.unique(rows, return_inverse=True) for rows in (pairs.users, pairs.items)]
    inputs = [np.column_stack([np.ones(size), z[:, columns]]) for columns in factors]  # [n, 1 + k]
    adding = [csr_matrix((np.ones(size), (place, np.arange(size))), shape=(len(rows), size)) for rows, place in sides]
    shapes = [(len(rows), values.shape[1]) for (rows, _), values in zip(sides, inputs, strict=True)]
    ends = np.cumsum([1, z.shape[1], *(rows * width for rows, width in shapes)])
    penalty = np.concatenate([_of_features(groups, penalties), *(
        np.broadcast_to(_of_individuals(penalties, side, shape[1]), shape).ravel() for side, shape in enumerate(shapes)
    )])  # fmt: skip
    middle = np.zeros(ends[-1])
    middle[1] = START_WEIGHT
    start = middle.copy()
    share = (y.sum() + 0.5) / (size + 1)
    start[0] = np.log(share / (1 - share))
    if start_from is not None:
        tables = zip((start_from.user, start_from.item), sides, shapes, strict=True)
        before = [
            np.pad(table[rows, :width], ((0, 0), (0, max(0, width - table.shape[1])))).ravel()  # 0 in new columns
            for table, (rows, _), (_, width) in tables
        ]
        start = np.concatenate([[start_from.intercept], start_from.weights, *before])

    def tables_of(w: Floats) -> list[Floats]:
        return [w[ends[1 + side] : ends[2 + side]].reshape(shape) for side, shape in enumerate(shapes)]

    def sums(values: Floats, features: Floats, inputs: list[Floats]) -> Floats:
        """Sums of values over the pairs of each coefficient."""
        each = (np.asarray(add @ (values[:, None] * part)).ravel() for add, part in zip(adding, inputs, strict=True))
        return np.concatenate([[values.sum()], features.T @ values, *each])

    curvature = np.full(size, share * (1 - share))
    scale = 1 / np.sqrt(penalty + sums(curvature, z * z, [part * part for part in inputs]))

    def loss(scaled: Floats) -> tuple[float, Floats]:
        w = scaled * scale
        eta = w[0] + z @ w[1 : ends[1]]
        for part, table, (_, place) in zip(inputs, tables_of(w), sides, strict=True):
            eta += np.einsum("nk,nk->n", part, table[place])
        away = w - middle
        value = np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * away**2)
        return float(value), (sums(expit(eta) - y, z, inputs) + penalty * away) * scale

    options = {"maxiter": ITERATIONS, "maxfun": ITERATIONS + 20, "gtol": 1e-3 * np.sqrt(size), "ftol": 1e-8}
    with _libraries().limit(limits=1, user_api="blas"):  # threads would wait for each other at every small step
        minimum = minimize(loss, start / scale, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    best = minimum.x * scale
    fitted = [np.zeros((number, width)) for number, (_, width) in zip((num_users, num_items), shapes, strict=True)]
    for table, values, (rows, _) in zip(fitted, tables_of(best), sides, strict=True):
        table[rows] = values
    return Fitted(float(best[0]), best[1 : ends[1]], fitted[0], fitted[1], factors)


def spread(model: Fitted, pairs: Pairs, groups: Rows, penalties: Penalties) -> Spread:
    """The uncertainty of a fit to these pairs with these penalties."""
    chance = expit(model.logits(pairs.features, pairs.users, pairs.items))
    curvature = chance * (1 - chance)
    hessian = np.diag(_of_features(groups, penalties))
    for start in range(0, len(pairs), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        ones = np.column_stack([np.ones(len(curvature[part])), pairs.features[part]])
        hessian += (ones * curvature[part, None]).T @ ones
    variances = []
    for side, (rows, table) in enumerate(((pairs.users, model.user), (pairs.items, model.item))):
        squares = [np.ones(len(pairs)), *(pairs.features[:, column] ** 2 for column in model.factors[side])]
        precision = np.column_stack([np.bincount(rows, curvature * square, len(table)) for square in squares])
        variances.append(1 / (_of_individuals(penalties, side, len(squares)) + precision))
    return Spread(np.linalg.inv(hessian).astype(np.float64), variances[0], variances[1], model.factors)


def _of_features(groups: Rows, penalties: Penalties) -> Floats:
    """Penalties of the intercept, of the label-free column and of every other feature: [2 + p]."""
    return np.concatenate([[1e-6, START_PENALTY], np.asarray(penalties[:-4])[groups]])


def _of_individuals(penalties: Penalties, side: int, width: int) -> Floats:
    """Penalties of the effect and the taste of a user (side 0) or an item (1): [1 + k]."""
    effect, taste = penalties[side - 4], penalties[side - 2]
    return np.array([effect, *[taste] * (width - 1)])


def losses(logits: Floats, labels: Floats) -> Floats:
    return np.asarray(np.logaddexp(0, logits) - labels * logits)


def held_out(
    pairs: Pairs, groups: Rows, penalties: Penalties, fold: Rows, shape: tuple[int, int],
    fits: dict[int, Fitted] | None = None,
) -> Floats:  # fmt: skip
    """Logits of every pair by a fit on the other folds: [n]. `fits`: earlier fits to start from, replaced by these."""
    logits = np.empty(len(pairs))
    fits = {} if fits is None else fits

    def leave_out(number: int) -> None:
        mask = fold == number
        model = fits[number] = fit(pairs.take(~mask), groups, penalties, *shape, fits.get(number))
        part = pairs.take(mask)
        logits[mask] = model.logits(part.features, part.users, part.items)

    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(leave_out, np.unique(fold).tolist()))
    return logits


def best_penalties(
    pairs: Pairs, groups: Rows, folds: Sequence[tuple[float, Rows]], shape: tuple[int, int],
    start: Sequence[float] = PENALTIES,
) -> tuple[Penalties, Floats]:  # fmt: skip
    """Penalties whose held-out log loss no step of one of them surely improves, and the logits held out with them by
    the last of the folds: [n]. `folds`: ways to hold labels out, each with the weight of its loss."""
    fits: list[dict[int, Fitted]] = [{} for _ in folds]

    def judge(penalties: Penalties) -> tuple[float, Floats]:
        loss = 0.0
        for (weight, fold), earlier in zip(folds, fits, strict=True):
            logits = held_out(pairs, groups, penalties, fold, shape, earlier)
            loss += weight * float(losses(logits, pairs.labels).mean())
        return loss, logits

    stronger = (*(min(STRONGER * penalty, MOST) for penalty in start[:-2]), *start[-2:])
    best, (least, logits) = min(((one, judge(one)) for one in (tuple(start), stronger)), key=lambda one: one[1][0])
    for step in STEPS:
        for place in (*np.unique(groups), *range(len(best) - 4, len(best))):
            for factor in (step, 1 / step):
                while True:
                    off = place >= len(best) - 2 and best[place] == OFF
                    moved = ON if off and factor < 1 else float(np.clip(best[place] * factor, LEAST, MOST))
                    if moved == best[place]:
                        break
                    candidate = (*best[:place], moved, *best[place + 1 :])
                    loss, candidate_logits = judge(candidate)
                    gains = losses(logits, pairs.labels) - losses(candidate_logits, pairs.labels)
                    sure = SURE_OF_TASTES if place >= len(best) - 2 and factor < 1 else SURE
                    if loss >= least - max(ENOUGH, sure * float(gains.std()) / np.sqrt(len(pairs))):
                        break
                    best, least, logits = candidate, loss, candidate_logits
    return best, logits


def calibrated(logits: Floats, labels: Floats) -> tuple[float, float]:
    """Shift and slope that bring held-out logits closest to the labels; with few labels the slope stays near 1."""
    ones = np.column_stack([np.ones(len(labels)), logits])
    w, penalty = np.array([0.0, 1.0]), np.array([1e-6, 5.0])
    for _ in range(25):
        chance = expit(ones @ w)
        slope = ones.T @ (chance - labels) + penalty * (w - [0.0, 1.0])
        hessian = (ones * (chance * (1 - chance))[:, None]).T @ ones + np.diag(penalty)
        w = w - np.linalg.solve(hessian, slope)
    return float(w[0]), float(w[1])
