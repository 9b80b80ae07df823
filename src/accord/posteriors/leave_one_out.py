"""Scores of every interaction by model families that leave this one interaction out, exactly.

Training on folds would do the same more slowly: the model without an interaction follows in closed form from the model
with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from accord.config import make_config
from accord.data.csr import Floats, IntArray
from accord.models.ease import EASE, inverse_gram
from accord.models.histories import power_or_zero
from accord.models.item_knn import ItemKNN, nearest

MOST_DENSE = 10_000  # items up to which an item-item matrix is held in memory: its inverse takes a minute
NUMBERS_AT_ONCE = 2**22
USERS_AT_ONCE = 2**12
REFERENCES = 256  # items that an interaction is compared with
SAMPLED_USERS = 1_000  # whose untouched reference items are the random pairs
NEAREST = 100  # neighbours of an item, where there are too many items for all
SEED: Any = (
    {"rng": 0} if "rng" in signature(sp.linalg.eigsh).parameters else {}
)  # else it draws anew where a log has parts


@dataclass(frozen=True)
class Family:
    """What one model says of a log's interactions and, after these, of other pairs; and of random pairs."""

    name: str
    scores: Floats  # [n]
    percentiles: Floats  # [n] share of the user's untouched reference items that score lower
    random: Floats  # [m] the same of random pairs, in the same order for every family


@dataclass(frozen=True)
class LowRank:
    """Singular factors of R = Du^-1/2 X Di^-1/2: R ≈ user diag(values) item'."""

    user: Floats  # [U, d]
    values: Floats  # [d], falling
    item: Floats  # [I, d]


def low_rank(x: Any, dim: int) -> LowRank:
    """The first `dim` factors, or as many as there can be."""
    users, items = (power_or_zero(np.asarray(x.sum(axis)).ravel(), -0.5) for axis in (1, 0))
    scaled = (sp.diags_array(users) @ x @ sp.diags_array(items)).tocsr()
    dim = min(dim, min(x.shape) - 1)
    if dim < 1:
        return LowRank(np.zeros((x.shape[0], 0)), np.zeros(0), np.zeros((x.shape[1], 0)))
    # from the same start every time; a start of ones would be orthogonal to what users disagree on
    start = np.random.default_rng(0).standard_normal(min(x.shape))
    tall = scaled if x.shape[0] >= x.shape[1] else scaled.T
    gram = sp.linalg.LinearOperator(2 * tall.shape[1:], lambda v: tall.T @ (tall @ v), dtype=tall.dtype)
    basis = np.linalg.qr(sp.linalg.eigsh(gram, k=dim, v0=start, **SEED)[1])[0]
    left, values, right = np.linalg.svd(tall @ basis, full_matrices=False)
    user, item = (left, basis @ right.T)[:: 1 if tall is scaled else -1]
    return LowRank(user, values.astype(np.float64), item)


Outside = tuple[IntArray, IntArray]  # users and items of pairs that the log does not have
NONE: Outside = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def families(x: Any, factors: LowRank, outside: Outside = NONE) -> list[Family]:
    """Popularity, EASE (the factors where there are too many items for it) and item-kNN, each without the interaction.
    x [U, I]: CSR of ones, rows sorted. Reference items are drawn once; an interaction's percentile is the share of
    those its user never touched that score lower from the rest of the user's history, ties counting half."""
    used = np.flatnonzero(np.diff(x.tocsc().indptr))
    references = np.sort(np.random.default_rng(0).permutation(used)[:REFERENCES])
    dense = x.shape[1] <= MOST_DENSE
    second = _ease(x, references, outside) if dense else _factors(x, factors, references, outside)
    return [_popularity(x, references, outside), second, _item_knn(x, references, dense, outside)]


def _family(
    name: str, x: Any, scores: Floats, references: IntArray, outside: Outside, of_outside: Floats, weights: Any = None,
    bias: Floats | None = None,
) -> Family:  # fmt: skip
    """A reference item scores its bias plus what each item of the history adds to it: weights [I, K]."""
    percentiles = [shares_below(x, scores, references, weights, bias)]
    percentiles.append(_outside_shares(x, outside, of_outside, references, weights, bias))
    scores = np.append(scores, of_outside)
    return Family(name, scores, np.concatenate(percentiles), _random_pairs(x, references, weights, bias))


def _outside_shares(
    x: Any, outside: Outside, scores: Floats, references: IntArray, weights: Any, bias: Floats | None
) -> Floats:
    """What `shares_below` is of interactions, of pairs that the log does not have."""
    shares: list[Floats] = [np.zeros(0)]
    for start in range(0, len(scores), USERS_AT_ONCE):
        part = slice(start, start + USERS_AT_ONCE)
        rows, score = x[outside[0][part]], scores[part, None].astype(np.float32)
        totals = _reference_scores(rows, references, weights, bias).astype(np.float32)
        untouched = (rows[:, references].toarray() == 0) & (references != outside[1][part, None])
        lower = (totals < score) + 0.5 * (totals == score)
        shares.append((lower * untouched).sum(1) / np.maximum(untouched.sum(1), 1))
    return np.concatenate(shares)


def _outside_sums(x: Any, outside: Outside, matrix: Any) -> Floats:
    """For each pair (u, i) that the log does not have the sum of matrix[j, i] over all j in the history of u."""
    sums: list[Floats] = [np.zeros(0)]
    for start in range(0, len(outside[0]), USERS_AT_ONCE):
        users, items = (part[start : start + USERS_AT_ONCE] for part in outside)
        rows = x[users]
        owners = _owners(rows)
        values = np.asarray(matrix[rows.indices, items[owners]], dtype=np.float64).ravel()
        sums.append(np.bincount(owners, values, len(users)).astype(np.float64))
    return np.concatenate(sums)


def _random_pairs(x: Any, references: IntArray, weights: Any, bias: Floats | None) -> Floats:
    """Percentiles of reference items that users never touched, each among the others of its user: [m]."""
    from scipy.stats import rankdata  # slow to import

    active = _owners(x)  # users as often as they have interactions
    rows = x[np.random.default_rng(0).choice(active, min(SAMPLED_USERS, len(active)), replace=False)]
    scores = _reference_scores(rows, references, weights, bias)
    scores[rows[:, references].toarray() > 0] = np.nan
    untouched = ~np.isnan(scores)
    others = np.maximum(untouched.sum(1, keepdims=True) - 1, 1)
    shares: Floats = ((rankdata(scores, axis=1, nan_policy="omit") - 1) / others)[untouched]
    return shares


def _popularity(x: Any, references: IntArray, outside: Outside) -> Family:
    counts = np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)
    scores = counts[x.indices] - 1
    return _family("popularity", x, scores, references, outside, counts[outside[1]], bias=counts[references])


def _ease(x: Any, references: IntArray, outside: Outside) -> Family:
    """The regression for item i without user u: with ŷ the fitted value and h its leverage, (ŷ - h) / (1 - h).
    h = z'(G₋ᵢ + λ)⁻¹ z for z, the history of u but for i, and (G₋ᵢ + λ)⁻¹ = P₋ᵢ - PᵢPᵢ'/Pᵢᵢ. Of a pair outside the log,
    whose item the regression took for 0, it is ŷ / (1 - h)."""
    inverse = inverse_gram(x, make_config(EASE.Config, {}, "ease").l2)
    diagonal = np.diag(inverse).copy()
    columns = history_sums(x, inverse)  # x'Pᵢ
    squares = np.add.reduceat(np.append(columns, 0.0), x.indptr[:-1]) * (np.diff(x.indptr) > 0)  # x'Px of each user
    pivot = diagonal[x.indices]  # Pᵢᵢ
    rest = columns - pivot
    fitted = -rest / pivot
    leverage = np.repeat(squares, np.diff(x.indptr)) - 2 * columns + pivot - rest**2 / pivot
    scores = (fitted - leverage) / (1 - leverage)
    weights = inverse[:, references] / -diagonal[references]
    weights[references, np.arange(len(references))] = 0
    users, pivot = outside[0], diagonal[outside[1]]
    columns = _outside_sums(x, outside, inverse)
    of_outside = -columns / pivot / (1 - squares[users] + columns**2 / pivot)
    return _family("ease", x, scores, references, outside, of_outside, weights.astype(np.float32))


def _item_knn(x: Any, references: IntArray, dense: bool, outside: Outside) -> Family:
    """(c_ij - 1) / (n_i^e n_j^(1-e) + shrink) over the rest of the history: c_ij without this user."""
    config = make_config(ItemKNN.Config, {}, "item-knn")
    weights = nearest(x, x.shape[1] if dense else NEAREST, config.balance, config.shrink)  # row j: of item j
    to_reference = np.ascontiguousarray(weights[references].toarray().T, dtype=np.float32)
    of_outside = _outside_sums(x, outside, (weights.toarray() if dense else weights).T)  # sparse, to look up is slow
    sizes = np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)
    source, target = (power_or_zero(sizes, power) for power in (config.balance, 1 - config.balance))
    targets = np.repeat(np.arange(len(sizes)), np.diff(weights.indptr))
    weights.data -= 1 / (source[weights.indices] * target[targets] + config.shrink)
    scores = history_sums(x, np.ascontiguousarray(weights.toarray().T)) if dense else sparse_history_sums(x, weights)
    return _family("item-knn", x, scores, references, outside, of_outside, to_reference)


def _factors(x: Any, factors: LowRank, references: IntArray, outside: Outside) -> Family:
    """The history without item i, projected on the item factors, times the factors of i."""
    counts = np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)
    scale = power_or_zero(counts, -0.5)[:, None] * factors.item  # what an item adds to its user's vector
    whole = [((rows @ scale)[_owners(rows)] * factors.item[rows.indices]).sum(1) for rows in _user_blocks(x)]
    scores = np.concatenate(whole) - (scale * factors.item).sum(1)[x.indices]
    to_reference = (scale @ factors.item[references].T).astype(np.float32)
    of_outside = ((x[outside[0]] @ scale) * factors.item[outside[1]]).sum(1)
    return _family("low-rank", x, scores, references, outside, of_outside, to_reference)


def _owners(rows: Any) -> IntArray:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _user_blocks(x: Any) -> Iterator[Any]:
    for start in range(0, x.shape[0], USERS_AT_ONCE):
        yield x[start : start + USERS_AT_ONCE]


def _reference_scores(rows: Any, references: IntArray, weights: Any, bias: Floats | None) -> Floats:
    """Scores of the references [K] from the histories of users, rows [B, I]: [B, K]."""
    scores = np.zeros((rows.shape[0], len(references))) if bias is None else np.tile(bias, (rows.shape[0], 1))
    return scores if weights is None else np.asarray(scores + rows @ weights)


def shares_below(
    x: Any, scores: Floats, references: IntArray, weights: npt.NDArray[np.float32] | None = None,
    bias: Floats | None = None,
) -> Floats:  # fmt: skip
    """For each entry (u, i) of a sparse x [U, I] the share of those references [K], items that u does not have, that
    score less than `scores` [n] gives the entry, equal ones counting half: [n].
    A reference scores its bias [K] and what each item of the history but i adds to it: weights [I, K]. None: 0."""
    column = np.full(x.shape[1], -1)
    column[references] = np.arange(len(references))
    below, first = np.empty(x.nnz), 0
    for rows in _user_blocks(x):
        owners, places = _owners(rows), column[rows.indices]
        untouched = np.ones((rows.shape[0], len(references)), dtype=bool)
        untouched[owners[places >= 0], places[places >= 0]] = False
        free = np.maximum(untouched.sum(1), 1)
        totals = _reference_scores(rows, references, weights, bias).astype(np.float32)
        for entries in np.array_split(np.arange(rows.nnz), -(-rows.nnz * len(references) // NUMBERS_AT_ONCE) or 1):
            user, places = owners[entries], first + entries
            others = totals[user] if weights is None else totals[user] - weights[rows.indices[entries]]
            score = scores[places, None].astype(np.float32)
            lower = (others < score) + 0.5 * (others == score)
            below[places] = (lower * untouched[user]).sum(1) / free[user]
        first += rows.nnz
    return below


def sparse_history_sums(x: Any, weights: Any) -> Floats:
    """For each interaction (u, i) the sum of weights[i, j], sparse, over all j in the history of u: [n]."""
    parts = []
    for rows in _user_blocks(x):
        sums = (rows @ weights.T).tocsr()
        sums.sort_indices()
        parts.append(np.asarray(sums[_owners(rows), rows.indices], dtype=np.float64).ravel())
    return np.concatenate(parts)


def history_sums(x: Any, matrix: Floats) -> Floats:
    """For each interaction (u, i) the sum of matrix[j, i] over all j in the history of u: [n]."""
    sums = np.empty(x.nnz)
    counts = np.diff(x.indptr)
    for length in np.unique(counts[counts > 0]):  # users with histories of one length are a rectangle
        users = np.flatnonzero(counts == length)
        for some in np.array_split(users, -(-len(users) * length * length // NUMBERS_AT_ONCE)):
            places = x.indptr[some][:, None] + np.arange(length)
            items = x.indices[places]
            sums[places] = matrix[items[:, :, None], items[:, None, :]].sum(1)
    return sums
