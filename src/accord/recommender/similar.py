"""How similar two items are: by what the model learned about them or, if it learned nothing, by shared users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.models.base import Model
from accord.models.consensus import Consensus, standardised


class Similarity(NamedTuple):
    """Similarities of items, given by row number; larger means more similar."""

    to_all: Callable[[int], Tensor]  # of one item to every item: [I]
    between: Callable[[Tensor, Tensor], Tensor]  # of items [n] to others [m]: [n, m]


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By what the model, or the members of a consensus, learned about items; otherwise by shared users."""
    return (_of_members(model) if isinstance(model, Consensus) else _learned(model)) or by_shared_users(train)


def _learned(model: Model) -> Similarity | None:
    """By the model's weights between items, or by the cosine of its item vectors; None if it has neither."""
    weights = model.item_to_item()
    if weights is not None:
        return by_weights(weights)
    vectors = model.item_vectors()
    return None if vectors is None else by_vectors(vectors)


def by_weights(weights: Tensor) -> Similarity:
    """The weight that leads from one item to another."""
    return Similarity(lambda item: weights[:, item], lambda items, others: weights[others][:, items].T)


def by_vectors(vectors: Tensor) -> Similarity:
    """The cosine of two item vectors."""
    unit = F.normalize(vectors.detach())
    return Similarity(lambda item: unit @ unit[item], lambda items, others: unit[items] @ unit[others].T)


def _of_members(model: Consensus) -> Similarity | None:
    """The vote of the members that have similarities, each standardised as its scores are."""
    targets: list[Any] = [member.target for member in model.members]
    learned = [(weight, _learned(target)) for weight, target in zip(model.weights, targets, strict=True)]
    voters = [(weight, similarity) for weight, similarity in learned if similarity is not None]
    total = sum(weight for weight, _ in voters)

    def to_all(item: int) -> Tensor:
        return torch.stack([weight / total * standardised(voter.to_all(item)) for weight, voter in voters]).sum(0)

    def between(items: Tensor, others: Tensor) -> Tensor:
        return torch.stack([to_all(item)[others] for item in items.tolist()])

    return Similarity(to_all, between) if voters else None


def by_shared_users(train: Csr) -> Similarity:
    """The cosine of the users of two items."""
    size = 1 / np.sqrt(np.maximum(train.popularity(), 1)).astype(np.float32)
    by_user = sp.csr_matrix((size[train.items], train.items, train.ptr), shape=(train.num_users, train.num_items))
    by_item = by_user.T.tocsr()

    def between(items: Tensor, others: Tensor) -> Tensor:
        shared = by_item[items.cpu().numpy()] @ by_item[others.cpu().numpy()].T
        return torch.from_numpy(shared.toarray()).to(items.device)

    return Similarity(lambda item: torch.from_numpy((by_item[item] @ by_user).toarray()[0]), between)
