"""Why an item is recommended: which items of the user's own history speak for it, by row numbers.

Where a model's score is a sum over the history, what each item adds to it (`contribution`); elsewhere how similar each
is to the item, as the model has it (`similarity`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from accord.data.csr import IntArray, Rows
from accord.recommender.top_n import Lists

REASONS = 3  # that are named for an item


class Reasons(NamedTuple):
    """For each item, the rows of own items that speak for it, the strongest first, and by how much."""

    by: Literal["contribution", "similarity"]
    of_items: list[list[tuple[int, float]]]


def of_user(lists: Lists, user: int, items: Tensor, most: int = REASONS) -> Reasons:
    """Of items [m] for a user of training."""
    train = lists.train
    return _reasons(lists, train.items[train.ptr[user] : train.ptr[user + 1]], items, most, user)


def of_history(lists: Lists, history: IntArray, items: Tensor, most: int = REASONS) -> Reasons:
    """Of items [m] for somebody of whom only these different items are known, the latest last."""
    return _reasons(lists, history, items, most, None)


@torch.inference_mode()
def _reasons(lists: Lists, history: Rows, items: Tensor, most: int, user: int | None) -> Reasons:
    own = torch.from_numpy(history).to(items)
    if not len(own) or not len(items):
        return Reasons("similarity", [[] for _ in range(len(items))])
    added = lists.method.target.contributions(own, items, user)
    speaks = lists.similar.between(items, own) if added is None else added[0].mT  # [m, n]
    values, places = speaks.topk(min(most, len(own)), dim=1)
    found = [
        [(int(history[place]), value) for value, place in zip(*both, strict=True) if value > 0]
        for both in zip(values.tolist(), places.tolist(), strict=True)
    ]
    return Reasons("similarity" if added is None else "contribution", found)
