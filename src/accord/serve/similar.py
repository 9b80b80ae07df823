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
from accord.models.cdae import CDAE
from accord.models.closed_form import EASE
from accord.models.lightgcn import LightGCN
from accord.models.mf import GMF, MF
from accord.models.neumf import NeuMF


def item_vectors(model: Model) -> Tensor | None:
    """A vector for each item, of the first run: [I, d]; None if the model has none."""
    if isinstance(model, LightGCN):
        return model.propagated()[0, model.num_users :]
    if isinstance(model, GMF):  # a dimension counts as much as the output layer weights it
        return model.item.weight[0] * model.out.weight[0].abs().sqrt().T
    if isinstance(model, NeuMF):
        return torch.cat([F.normalize(model.item.weight[0]), F.normalize(model.wide_item.weight[0])], 1)
    if isinstance(model, MF):
        return model.item.weight[0]
    if isinstance(model, CDAE):
        return model.decoder.weight[0]
    return None


def item_weights(model: Model) -> Tensor | None:
    """What each item of a history [I] adds to the score of each item: [I, I]; None if the model has no such weights."""
    return model.weight if isinstance(model, EASE) else None


class Similarity(Protocol):
    """Similarities of items, given by row number; larger means more similar."""

    def to_all(self, item: int) -> Tensor:
        """One item to every item: [I]."""

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        """Items [n] to others [m]: [n, m]."""


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By the model's weights between items, by the cosine of its item vectors, or else by shared users."""
    weights, vectors = item_weights(model), item_vectors(model)
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
