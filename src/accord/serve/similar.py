"""How alike items are to a model: by what it learned of them, or by who took them where it learned nothing."""

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


class Similarity(Protocol):
    """Similarities of items by row numbers; larger is more alike."""

    def to_all(self, item: int) -> Tensor:
        """Of one item to every item: [I]."""

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        """Of items [n] to others [m]: [n, m]."""


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By the weights of EASE, by the cosine of item vectors, or else by the cosine of who took the items."""
    if isinstance(model, EASE):
        return ByWeight(model.weight)
    vectors = _vectors(model)
    return BySharedUsers(train) if vectors is None else ByVector(vectors)


def _vectors(model: Model) -> Tensor | None:
    """What the model's first run knows of each item: [I, d]."""
    if isinstance(model, LightGCN):
        return model.propagated()[0, model.num_users :]
    if isinstance(model, GMF):  # a dimension counts as much as the output layer makes of it
        return model.item.weight[0] * model.out.weight[0].abs().sqrt().T
    if isinstance(model, NeuMF):
        return torch.cat([F.normalize(model.item.weight[0]), F.normalize(model.wide_item.weight[0])], 1)
    if isinstance(model, MF):
        return model.item.weight[0]
    if isinstance(model, CDAE):
        return model.decoder.weight[0]
    return None


class ByVector:
    def __init__(self, vectors: Tensor) -> None:
        self._vectors = F.normalize(vectors.detach())

    def to_all(self, item: int) -> Tensor:
        return self._vectors @ self._vectors[item]

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        return self._vectors[items] @ self._vectors[others].T


class ByWeight:
    """EASE adds up, for each item, the weights that lead to it from the items of the history."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def to_all(self, item: int) -> Tensor:
        return self._weight[:, item]

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        return self._weight[others][:, items].T


class BySharedUsers:
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
