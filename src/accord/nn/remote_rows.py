"""Rows of a table that is split between processes: a batch fetches those that it needs, and sends gradients back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from accord.nn.ranks import Ranks


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, first: int, ranks: Ranks, name: str, each: int) -> Tensor:
        runs, rows, dim = weight.shape
        run = torch.arange(runs, device=ids.device).unsqueeze(1)
        keys, places = torch.unique(ids * runs + run, return_inverse=True)  # sorted by the process that has them
        requested = torch.bincount(keys // runs // each, minlength=ranks.size)
        wanted = ranks.exchange(requested, [1] * ranks.size, [1] * ranks.size, f"how many rows of {name}")
        ours, theirs = requested.tolist(), wanted.tolist()
        keys = ranks.exchange(keys, ours, theirs, f"which rows of {name}")
        flat = keys % runs * rows + keys // runs - first  # of those that others want, and we
        got = ranks.exchange(weight.view(-1, dim)[flat], theirs, ours, f"rows of {name}")
        ctx.save_for_backward(places, flat)
        ctx.rest = weight.shape, ours, theirs, ranks, name
        return got[places]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        places, flat = ctx.saved_tensors
        shape, ours, theirs, ranks, name = ctx.rest
        gradient = gradients[0].reshape(-1, shape[-1])
        summed = gradient.new_zeros(sum(ours), shape[-1]).index_add_(0, places.view(-1), gradient)
        received = ranks.exchange(summed, ours, theirs, f"gradients of rows of {name}")
        table = gradient.new_zeros(shape)
        table.view(-1, shape[-1]).index_add_(0, flat, received)
        return table, None, None, None, None, None


def fetch(weight: Tensor, ids: Tensor, first: int, whole: int, ranks: Ranks, name: str) -> Tensor:
    """Rows of a table [R, whole, dim] of which `weight` has those from `first` on: ids [R, B] -> [R, B, dim]."""
    each = -(-whole // ranks.size)
    rows: Tensor = _Fetch.apply(weight, ids, first, ranks, name, each)  # type: ignore[no-untyped-call]
    return rows
