"""Popularity and EASE: fitted in closed form, without a loss, in a second. Every comparison shows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.data.sampling import entries_of
from accord.errors import InputError
from accord.models.base import BaseConfig, Model, Setup


class Popularity(Model):
    name = "popularity"
    summary = "the most interacted items, for everybody"
    closed_form = True

    counts: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("counts", torch.from_numpy(setup.train.popularity()).float())

    def score_all(self, users: Tensor) -> Tensor:
        return self.counts.expand(1, len(users), -1).clone()

    def fold_in(self, history: Tensor) -> Tensor:
        return self.counts.unsqueeze(0)


def item_weights(x: Any, l2: float) -> npt.NDArray[np.float64]:
    """B of a ridge regression x ≈ x B with a zero diagonal: B = I - P / diag(P), P = (x'x + l2 I)^-1."""
    gram = (x.T @ x).toarray().astype(np.float64)
    gram[np.diag_indices(len(gram))] += l2
    inverse = _inverse(torch.from_numpy(gram)).numpy()
    weight: npt.NDArray[np.float64] = inverse / -np.diag(inverse)
    np.fill_diagonal(weight, 0)
    return weight


def _inverse(matrix: Tensor) -> Tensor:
    """Of a positive definite matrix, by one thread: with several, the last bits depend on how many there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.cholesky_inverse(torch.linalg.cholesky(matrix, out=matrix), out=matrix)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise InputError("ease cannot be fitted: the penalty is too small for this data; raise model.l2.") from None
    finally:
        torch.set_num_threads(threads)


class EASE(Model):
    """Item-to-item weights of a ridge regression with a zero diagonal."""

    name = "ease"
    summary = "linear item-to-item model with a closed-form solution"
    closed_form = True
    MOST_ITEMS = 30_000  # the inverse is dense: 30,000 items are 7 GB in float64

    class Config(BaseConfig):
        l2: float = Field(500.0, gt=0, description="ridge penalty")

    weight: Tensor
    ptr: Tensor
    items: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        if train.num_items > self.MOST_ITEMS:
            raise InputError(
                f"ease inverts an items x items matrix, and {train.num_items:,} items are too many for that "
                f"(at most {self.MOST_ITEMS:,}); choose another model."
            )
        shape = (train.num_users, train.num_items)
        x = sp.csr_matrix((np.ones(len(train.items)), train.items, train.ptr), shape=shape)
        weight = item_weights(x, config.l2)
        self.register_buffer("weight", torch.from_numpy(weight.astype(np.float32)))
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)

    def score_all(self, users: Tensor) -> Tensor:
        _, items, starts = entries_of(self.ptr, self.items, users)
        return F.embedding_bag(items, self.weight, starts, mode="sum").unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        return self.weight[history].sum(0, keepdim=True)
