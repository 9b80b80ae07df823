"""The best of many scores, equal ones in a given order: by sorting in torch, which defines it, and compiled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from accord.kernels import cpu
from accord.kernels.lookups import entries_of

SHORT = 128  # up to this length a list stays sorted while a row is read
SORTED_BYTES = 128 * 2**20  # of rows that are sorted at once


class Seen(NamedTuple):
    """Items that are not ranked: the owner u of a row of scores has seen items[ptr[u]:ptr[u + 1]], in order."""

    ptr: Tensor
    items: Tensor
    owners: Tensor  # [B]


def top_k(scores: Tensor, k: int, priority: Tensor, seen: Seen | None = None) -> tuple[Tensor, Tensor]:
    """The k best items of each row and their scores, equal scores in the order of `priority`, in which each of the
    items has a different place, from 0: [..., I] -> [..., k].

    Of [R, B, I], what the owners [B] have seen comes behind all other items, with the score -inf."""
    num_items = scores.shape[-1]
    k = min(k, num_items)
    if k <= SHORT and cpu.usable(scores):
        rows = scores.reshape(-1, num_items)
        if seen is not None and len(rows) > len(seen.owners):
            seen = seen._replace(owners=seen.owners.repeat(len(rows) // max(1, len(seen.owners))))
        values, items = cpu.top_k(rows, k, priority, seen)
        return values.view(*scores.shape[:-1], k), items.view(*scores.shape[:-1], k)
    if seen is not None:
        owner, items, _ = entries_of(*seen)
        scores[:, owner, items] = -torch.inf
    return reference_top_k(scores, k, priority)


def top_k_of_one(
    scores: Tensor, k: int, priority: Tensor, seen: Tensor, barred: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`top_k` of one list [I], without some items."""
    scores[seen] = -torch.inf
    if barred is not None:
        scores[barred] = -torch.inf
    return top_k(scores, k, priority)


def reference_top_k(scores: Tensor, k: int, priority: Tensor) -> tuple[Tensor, Tensor]:
    """The same by sorting, of all items.
    `torch.topk` picks among equal scores as it likes. Within the list a second sort puts them in order; only rows
    where the k-th and the next score are equal need all their items sorted."""
    num_items = scores.shape[-1]
    shape, rows = scores.shape[:-1], scores.reshape(-1, num_items)
    values, items = rows.topk(min(k + 1, num_items), dim=-1)
    by_priority = priority[items].argsort(-1)
    values, items = values.gather(-1, by_priority), items.gather(-1, by_priority)
    by_score = values.argsort(dim=-1, descending=True, stable=True)
    values, items = values.gather(-1, by_score), items.gather(-1, by_score)
    if items.shape[-1] > k:
        cut = torch.nonzero(values[:, k - 1] == values[:, k]).squeeze(1)
        values, items = values[:, :k].contiguous(), items[:, :k].contiguous()
        if len(cut):
            ordered = priority.argsort()  # columns in the order of priority, so that a stable sort keeps it
            for part in torch.split(cut, max(1, SORTED_BYTES // (16 * num_items))):
                best = rows[part][:, ordered].sort(dim=-1, descending=True, stable=True)
                values[part], items[part] = best.values[:, :k], ordered[best.indices[:, :k]]
    return values.view(*shape, k), items.view(*shape, k)
