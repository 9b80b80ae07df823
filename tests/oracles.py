"""What the oracles of the solved models share: small data with and without weights, as dense matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.data.csr import Csr
from helpers import random_csr

USERS, ITEMS = 30, 14


def weighted(train: Csr, seed: int = 5) -> Csr:
    """The same interactions, each with a weight."""
    drawn = np.random.default_rng(seed).uniform(0.2, 3, len(train.items))
    return replace(train, columns={"weight": drawn})


PLAIN = random_csr(USERS, ITEMS, 0.35)
EMPTY = Csr.of(PLAIN.users, PLAIN.items, USERS + 2, ITEMS + 3)  # users and items that have nothing
CASES = {"plain": PLAIN, "weights": weighted(PLAIN), "with nothing": EMPTY}
each_case = pytest.mark.parametrize("train", CASES.values(), ids=CASES)


def dense(train: Csr) -> np.ndarray:
    """X [U, I] in float64."""
    matrix = np.zeros((train.num_users, train.num_items))
    matrix[train.users, train.items] = train.columns.get("weight", 1.0)
    return matrix


def scores_of(model, users=None) -> np.ndarray:
    """Scores of all items for users, all if not given: [U, I] of the first run."""
    rows = torch.arange(model.num_users) if users is None else torch.tensor(users)
    with torch.inference_mode():
        return model.score_all(rows)[0].numpy()


def neighbour_scores(x, others, k, shrink, own=None):
    """User-kNN's scores of histories x [B, I] among others [U, I]; `own` [B]: rows of `others` that are their own."""
    found = np.zeros_like(x)
    for row, history in enumerate(x):
        norm = np.linalg.norm(history) * np.linalg.norm(others, axis=1) + shrink
        alike = np.divide(others @ history, norm, out=np.zeros(len(others)), where=others @ history > 0)
        if own is not None:
            alike[own[row]] = 0
        nearest = np.argsort(-alike.astype(np.float32), kind="stable")[:k]  # of equal users the earlier ones
        found[row] = alike[nearest] @ others[nearest]
    return found


def history_of(train: Csr, user: int) -> torch.Tensor:
    return torch.from_numpy(train.items[train.ptr[user] : train.ptr[user + 1]])


def with_threads(number: int, compute):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        return compute()
    finally:
        torch.set_num_threads(before)
