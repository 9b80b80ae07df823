"""How similar two items are: by what the model learned about them or, where it learned nothing, by shared users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.models.base import Model
from accord.models.consensus import Consensus, standardised


class Similarity(Protocol):
    """Similarities of items, given by row number; larger means more similar."""

    def to_all(self, item: int) -> Tensor:
        """One item to every item: [I]."""

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        """Items [n] to others [m]: [n, m]."""


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By what the model, or the members of a consensus, know of items, or else by shared users."""
    own = _by_members(model) if isinstance(model, Consensus) else _learned(model)
    return BySharedUsers(train) if own is None else own


def _learned(model: Model) -> Similarity | None:
    """By the model's weights between items, or by the cosine of its item vectors; None: it has neither."""
    weights = model.item_to_item()
    if weights is not None:
        return ByWeight(weights)
    vectors = model.item_vectors()
    return None if vectors is None else ByVector(vectors)


def _by_members(model: Consensus) -> Similarity | None:
    targets: list[Any] = [member.target for member in model.members]
    found = [(weight, _learned(target)) for weight, target in zip(model.weights, targets, strict=True)]
    known = [(weight, one) for weight, one in found if one is not None]
    return ByMembers([one for _, one in known], [weight for weight, _ in known]) if known else None


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


class ByMembers:
    """The vote of several, each with its similarities to an item standardised as its scores are."""

    def __init__(self, members: Sequence[Similarity], weights: Sequence[float]) -> None:
        self._members, self._shares = members, [weight / sum(weights) for weight in weights]

    def to_all(self, item: int) -> Tensor:
        votes = [share * standardised(one.to_all(item)) for share, one in zip(self._shares, self._members, strict=True)]
        return torch.stack(votes).sum(0)

    def between(self, items: Tensor, others: Tensor) -> Tensor:
        return torch.stack([self.to_all(item)[others] for item in items.tolist()])


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
        shared = self._by_item[items.cpu().numpy()] @ self._by_item[others.cpu().numpy()].T
        return torch.from_numpy(shared.toarray()).to(items.device)
