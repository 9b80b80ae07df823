"""EASE: a linear item-to-item model, solved in a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.errors import InputError
from accord.kernels.lookups import places_of
from accord.models.base import Model, Setup


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
    summary = "linear item-to-item model, solved in one step"
    solved = True
    logits = False
    most_items = 30_000  # the inverse is dense: 30,000 items are 7 GB in float64

    class Config(BaseConfig):
        l2: float = Field(500.0, gt=0, description="ridge penalty")

    weight: Tensor
    ptr: Tensor
    items: Tensor
    history_weight: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        if train.num_items > self.most_items:
            raise InputError(
                f"ease inverts an items x items matrix, and {train.num_items:,} items are too many for that "
                f"(at most {self.most_items:,}); choose another model."
            )
        self.register_buffer("weight", torch.empty(train.num_items, train.num_items, dtype=torch.float32))
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)
        weight = train.columns.get("weight")  # a history counts as it did when the model was fitted
        counts = None if weight is None else torch.from_numpy(weight).float()
        self.register_buffer("history_weight", counts, persistent=False)

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        counts = np.ones(len(train.items)) if weight is None else weight
        x = sp.csr_matrix((counts, train.items, train.ptr), shape=(train.num_users, train.num_items))
        self.weight = torch.from_numpy(item_weights(x, self.config.l2).astype(np.float32))

    def score_all(self, users: Tensor) -> Tensor:
        _, places, starts = places_of(self.ptr, users)
        counts = None if self.history_weight is None else self.history_weight[places]
        items = self.items[places].long()
        return F.embedding_bag(items, self.weight, starts, mode="sum", per_sample_weights=counts).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        return self.weight[history].sum(0, keepdim=True)

    def item_to_item(self) -> Tensor:
        return self.weight
