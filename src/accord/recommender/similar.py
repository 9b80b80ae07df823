"""How similar two items are: by what the model learned about them or, where it learned nothing, by shared users."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.models.base import Model


class Similarity(Protocol):
    """Similarities of items, given by row number; larger means more similar."""

    def to_all(self, item: int) -> Tensor:
        """One item to every item: [I]."""

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        """Items [n] to others [m]: [n, m]."""


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By the model's weights between items, by the cosine of its item vectors, or else by shared users."""
    weights, vectors = model.item_to_item(), model.item_vectors()
    if weights is not None:
        return ByWeight(weights)
    return BySharedUsers(train) if vectors is None else ByVector(vectors)


class ByVector:
    """The cosine of two item vectors."""

    def __init__(self, vectors: Tensor) -> None:
        self._vectors = F.normalize(vectors.detach())

    def to_all(self, item: int) -> Tensor:
        return self._vectors @ self._vectors[item]

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        return self._vectors[items] @ self._vectors[others].T


class ByWeight:
    """The weight that leads from one item to another."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def to_all(self, item: int) -> Tensor:
        return self._weight[:, item]

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        return self._weight[others][:, items].T


class BySharedUsers:
    """The cosine of the users of two items."""

    def __init__(self, train: Csr) -> None:
        size = 1 / np.sqrt(np.maximum(train.popularity(), 1)).astype(np.float32)
        shape = (train.num_users, train.num_items)
        self._by_user = sp.csr_matrix((size[train.items], train.items, train.ptr), shape=shape)
        self._by_item = self._by_user.T.tocsr()

    def to_all(self, item: int) -> Tensor:
        return torch.from_numpy((self._by_item[item] @ self._by_user).toarray()[0])

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        shared = self._by_item[items.numpy()] @ self._by_item[others.numpy()].T
        return torch.from_numpy(shared.toarray())
