"""EASE: a linear item-to-item model, solved in a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.errors import InputError
from accord.models.histories import DenseItemToItem, clean_target, interaction_matrix, one_thread, power_or_zero


def item_weights(x: Any, l2: float, dropout: float = 0.0, target: Any = None) -> npt.NDArray[np.float64]:
    """B of a ridge regression x ≈ x B with a zero diagonal: B = I - P / diag(P), P = `inverse_gram`.

    Of y ≈ x B, y being the `target`: B = M - P diag(M) / diag(P), M = P x'y.
    """
    inverse = inverse_gram(x, l2, dropout)
    if target is not None:
        product = inverse @ (x.T @ target).toarray()
        found: npt.NDArray[np.float64] = product - inverse * (np.diag(product) / np.diag(inverse))
        np.fill_diagonal(found, 0)
        return found
    weight: npt.NDArray[np.float64] = inverse / -np.diag(inverse)
    np.fill_diagonal(weight, 0)
    return weight


def inverse_gram(x: Any, l2: float, dropout: float = 0.0) -> npt.NDArray[np.float64]:
    """P = (G + D)^-1 with G = x'x.

    D = l2 I + p / (1 - p) diag(G), p being `dropout`: what dropping that share of every input at random adds up to.
    """
    gram = (x.T @ x).toarray().astype(np.float64)
    diagonal = np.diag_indices(len(gram))
    gram[diagonal] += l2 + dropout / (1 - dropout) * gram[diagonal]
    return _inverse(torch.from_numpy(gram)).numpy()


def _inverse(matrix: Tensor) -> Tensor:
    """Of a positive definite matrix, by one thread: with several, the last bits depend on how many there are."""
    with one_thread():
        try:
            return torch.cholesky_inverse(torch.linalg.cholesky(matrix, out=matrix), out=matrix)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise InputError("ease cannot be fitted: the penalty is too small for this data; raise model.l2.") from None


class EASE(DenseItemToItem):
    """Item-to-item weights of a ridge regression with a zero diagonal."""

    name = "ease"
    summary = "linear item-to-item model, solved in one step"
    most_items = 30_000  # the inverse is dense: 30,000 items are 7 GB in float64
    needs = "inverts an items x items matrix"

    class Config(BaseConfig):
        l2: float = Field(500.0, gt=0, description="ridge penalty")
        dropout: float = Field(0.0, ge=0, lt=1, description="share of a history taken as dropped at random")
        user_norm: float = Field(0.0, ge=0, le=1, description="fitting scales a user of n interactions by n^-user_norm")
        clean: bool = Field(False, description="predict p_real, where it is known, instead of the interactions")

        @model_serializer(mode="wrap")
        def _as_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
            """Options that are 0 are left out, as in files from before there were any: results keep their keys."""
            return {name: value for name, value in written(self).items() if value or name == "l2"}

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        x = interaction_matrix(train, weight)
        target = clean_target(train, x) if self.config.clean else None
        if self.config.user_norm:
            scale = sp.diags_array(power_or_zero(x.sum(1).A1, -self.config.user_norm))
            x, target = scale @ x, None if target is None else scale @ target
        weights = item_weights(x, self.config.l2, self.config.dropout, target)
        self.weight = torch.from_numpy(weights.astype(np.float32, order="C"))  # rows, as scoring reads them
