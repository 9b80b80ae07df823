"""EASE: a linear item-to-item model, solved in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import Tensor

from accord.data.csr import Csr
from accord.errors import InputError
from accord.kernels.cpu import in_threads
from accord.kernels.inverse import BLOCK, sweep
from accord.kernels.neighbour_loops import Doubles, Floats
from accord.kernels.neighbours import lay_out
from accord.models.base import memory_of
from accord.models.histories import (
    DenseItemToItem,
    HistoryConfig,
    by_blocks_of_gram,
    interaction_matrix,
    power_or_zero,
)

M = TypeVar("M", Doubles, Floats, Tensor)
Array = TypeVar("Array", Doubles, Floats)

TOO_SMALL = "the model cannot be fitted: the penalty is too small for this data; raise model.l2."
SMALL = 4_096  # items up to which the inverse is always made in float64
NUMBERS_AT_ONCE = 2**25  # of users by items, on the way to a target
ROUNDED = 1e-3  # by so much of itself, at most, may rounding change an inverse that is made in float32


def item_weights(
    x: Any, l2: float, dropout: float = 0.0, target: Any = None, on_progress: Callable[[float], None] | None = None
) -> Doubles | Floats:
    """B of a ridge regression x ≈ x B with a zero diagonal: B = I - P / diag(P), P = `inverse_gram`.
    Of y ≈ x B, y being the `target`: B = M - P diag(M) / diag(P), M = P x'y. In the memory of one matrix, or of two
    with a target. Large ones in float32, which takes half of the time, where the penalty is large beside the largest
    row of G, and with that beside its largest eigenvalue: then rounding cannot grow."""
    size = x.shape[1]
    single = size > SMALL and _rounds_little(x, l2)
    matrix = _swept(np.empty((size, size), dtype=np.float32 if single else np.float64), x, l2, dropout, on_progress)
    if target is not None:
        return _towards(matrix, x, target)
    diagonal = np.diag_indices(size)
    norms = -matrix[diagonal]
    matrix[diagonal] = 0
    matrix /= norms
    return matrix


def _rounds_little(x: Any, l2: float) -> bool:
    largest = (x.T @ x.sum(1)).max() + l2 if x.shape[1] else l2
    return bool(largest * np.finfo(np.float32).eps < ROUNDED * l2)


def inverse_gram(x: Any, l2: float, dropout: float = 0.0) -> Doubles:
    """P = (G + D)^-1 with G = x'x.
    D = l2 I + p / (1 - p) diag(G), p being `dropout`: what dropping that share of every input at random adds up to."""
    gram = np.empty((x.shape[1], x.shape[1]))
    return np.negative(_swept(gram, x, l2, dropout), out=gram)


def _fill_with_gram(matrix: M, x: Any, y: Any = None) -> M:
    table = matrix if isinstance(matrix, Tensor) else torch.from_numpy(matrix)
    by_blocks_of_gram(x, lambda rows, own: lay_out(table[rows], own), BLOCK, y=y)
    return matrix


def _swept(
    matrix: Array, x: Any, l2: float, dropout: float, on_progress: Callable[[float], None] | None = None
) -> Array:
    """Fills a matrix with -P, P = `inverse_gram`, by several threads; their number changes no bit."""
    _fill_with_gram(matrix, x)
    diagonal = np.diag_indices(len(matrix))
    matrix[diagonal] += l2 + dropout / (1 - dropout) * matrix[diagonal]
    return _minus_inverse(matrix, on_progress)


def _minus_inverse(matrix: Array, on_progress: Callable[[float], None] | None = None) -> Array:
    try:
        sweep(matrix, on_progress)  # below the diagonal
    except np.linalg.LinAlgError:
        raise InputError(TOO_SMALL) from None
    for start in range(0, len(matrix), BLOCK):  # what is above the diagonal is what is below it
        rows = slice(start, start + BLOCK)
        above = matrix[rows, rows.start :]
        matrix[rows, rows.start :] = np.tril(matrix[rows.start :, rows]).T + np.tril(above, -1)
    return matrix


def _towards(matrix: Array, x: Any, target: Any) -> Array:
    """From -P, the weights towards a target y: with M = P x'y, by way of the users, of whom few have an item."""
    by_user, by_item = x.tocsr().astype(matrix.dtype), target.T.tocsr().astype(matrix.dtype)
    result = np.empty_like(matrix)
    at_once = max(1, min(BLOCK, NUMBERS_AT_ONCE // x.shape[0]))

    def multiply(start: int) -> None:
        rows = slice(start, start + at_once)
        result[rows] = (by_item @ (by_user @ np.ascontiguousarray(matrix[rows].T))).T  # -M

    in_threads(multiply, [(start,) for start in range(0, len(matrix), at_once)])
    return _without_diagonal(matrix, result)


def _without_diagonal(matrix: Array, result: Array) -> Array:
    scale: Doubles | Floats = result.diagonal() / matrix.diagonal()
    np.multiply(matrix, scale, out=matrix)  # -P diag(M) / diag(P)
    np.subtract(matrix, result, out=result)
    np.fill_diagonal(result, 0)
    return result


def solved_towards(
    device: torch.device, gram: Array, target: Array, on_progress: Callable[[float], None] | None = None
) -> Tensor:
    """The weights M - P diag(M) / diag(P), M = P `target`, P the inverse of `gram`, which are both overwritten or
    left on a device: [I, I]."""
    if device.type == "cuda" and 48 * gram.size <= memory_of(device):
        matrix = torch.from_numpy(gram).to(device).double()
        return _towards_on(_inverse_on(matrix), torch.from_numpy(target).to(device).double())
    minus = _minus_inverse(gram, on_progress)
    result, threads = np.empty_like(minus), torch.get_num_threads()

    def multiply(start: int) -> None:
        torch.set_num_threads(1)
        rows = slice(start, start + BLOCK)
        torch.mm(torch.from_numpy(minus[rows]), torch.from_numpy(target), out=torch.from_numpy(result[rows]))

    try:
        in_threads(multiply, [(start,) for start in range(0, len(minus), BLOCK)])
    finally:
        torch.set_num_threads(threads)
    return torch.from_numpy(_without_diagonal(minus, result).astype(np.float32))


def _inverse_on(matrix: Tensor) -> Tensor:
    try:
        return torch.cholesky_inverse(torch.linalg.cholesky(matrix, out=matrix))
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise InputError(TOO_SMALL) from None


def _towards_on(inverse: Tensor, target: Tensor) -> Tensor:
    product, norms = inverse @ target, inverse.diagonal().clone()
    return product.sub_(inverse.mul_(product.diagonal() / norms)).fill_diagonal_(0).float()


def kind_on(device: torch.device, x: Any, l2: float) -> torch.dtype | None:
    """The numbers by which a GPU fits these weights: of float64 if its memory holds twice what `weights_on` takes of
    them, of float32 if that rounds little and it holds these; None if it is no GPU, or too small."""
    if device.type != "cuda":
        return None
    most, numbers = memory_of(device), 2 * 3 * x.shape[1] ** 2
    if 8 * numbers <= most:
        return torch.float64
    return torch.float32 if 4 * numbers <= most and _rounds_little(x, l2) else None


def weights_on(
    device: torch.device, x: Any, l2: float, dropout: float = 0.0, target: Any = None, kind: Any = torch.float64
) -> Tensor:
    """What `item_weights` gives, but for rounding, by a GPU, in the memory of three matrices: [I, I]."""
    size = x.shape[1]
    matrix = _fill_with_gram(torch.empty(size, size, dtype=kind, device=device), x)
    matrix.diagonal().mul_(1 / (1 - dropout)).add_(l2)
    inverse = _inverse_on(matrix)
    if target is None:
        return inverse.div_(-inverse.diagonal().clone()).fill_diagonal_(0).float()
    return _towards_on(inverse, _fill_with_gram(matrix, x, target))


def clean_target(train: Csr, x: Any) -> Any:
    """x, as `interaction_matrix` gives it, times p_real of every interaction where the log has such a column."""
    p_real = train.columns.get("p_real")
    return x if p_real is None else sp.csr_matrix((x.data * p_real, x.indices, x.indptr), shape=x.shape)


class EASE(DenseItemToItem):
    """Item-to-item weights of a ridge regression with a zero diagonal."""

    name = "ease"
    summary = "linear item-to-item model, solved in one step"
    needs = "inverts an items x items matrix"
    left_out = 0.001  # by which NDCG@20 falls by less than .1% (docs/files.md)

    class Config(HistoryConfig):
        l2: float = Field(500.0, gt=0, description="ridge penalty")
        dropout: float = Field(0.0, ge=0, lt=1, description="share of each history dropped at random, in expectation")
        user_norm: float = Field(0.0, ge=0, le=1, description="fitting scales a user of n interactions by n^-user_norm")
        clean: bool = Field(False, description="predict p_real, where it is known, instead of the interactions")
        omit_when_default = ("recency", "dropout", "user_norm", "clean")

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        self.require_memory()
        x = interaction_matrix(train, weight)
        target = clean_target(train, x) if self.config.clean else None
        if self.config.user_norm:
            scale = sp.diags_array(power_or_zero(x.sum(1).A1, -self.config.user_norm))
            x, target = scale @ x, None if target is None else scale @ target
        if (kind := kind_on(self.place, x, self.config.l2)) is not None:
            self.weight = weights_on(self.place, x, self.config.l2, self.config.dropout, target, kind)
            return
        weights = item_weights(x, self.config.l2, self.config.dropout, target, self.on_progress)
        self.weight = torch.from_numpy(weights.astype(np.float32, order="C", copy=False))  # rows, as scoring reads them
