"""Rows of a table, times factors, summed over lists of them, as one kernel on CUDA: over the histories of a batch's
users, and over the neighbours of every node of a graph. The plain torch beside the callers defines both.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from accord.kernels.cuda import padded
from accord.kernels.lookups import run_offsets

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

ENTRIES = 16  # of a list, at once
LONGEST = 128  # part of a list that is summed by itself
COLUMNS = 128  # of a row, at most, by one part


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_histories(  # type: ignore[no-untyped-def]
        table_at, ptr_at, items_at, factors_at, users_at, place_at, out_at, size, num_rows, num_entries, dim,
        BACKWARD: tl.constexpr, DIM: tl.constexpr, ENTRIES: tl.constexpr,
    ):  # fmt: skip
        run, own = tl.program_id(1).to(tl.int64), tl.program_id(0)
        column = tl.arange(0, DIM)
        inside = column < dim
        here = out_at + (run * size + own) * dim + column
        if tl.load(place_at + run * size + own) == own:
            user = tl.load(users_at + run * size + own)
            start, end = tl.load(ptr_at + user), tl.load(ptr_at + user + 1)
            total = tl.load(here, mask=inside, other=0.0) if BACKWARD else tl.zeros([DIM], tl.float32)
            for first in range(start, end, ENTRIES):
                entry = first + tl.arange(0, ENTRIES)
                known = entry < end
                factor = tl.load(factors_at + run * num_entries + entry, mask=known, other=0.0)[:, None]
                row = run * num_rows + tl.load(items_at + entry, mask=known, other=0).to(tl.int64)
                there = table_at + row[:, None] * dim + column[None, :]
                if BACKWARD:
                    mask = (factor != 0) & inside[None, :]
                    tl.atomic_add(there, factor * total[None, :], mask=mask, sem="relaxed")
                else:
                    mask = known[:, None] & inside[None, :]
                    total += tl.sum(factor * tl.load(there, mask=mask, other=0.0), axis=0)
            if not BACKWARD:
                tl.store(here, total, mask=inside)
        elif not BACKWARD:
            tl.store(here, tl.zeros([DIM], tl.float32), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_neighbours(  # type: ignore[no-untyped-def]
        table_at, columns_at, factors_at, part_at, out_at, dim,
        DIM: tl.constexpr, ENTRIES: tl.constexpr,
    ):  # fmt: skip
        part = part_at + 4 * tl.program_id(0)
        own, start, stop, alone = tl.load(part), tl.load(part + 1), tl.load(part + 2), tl.load(part + 3)
        column = tl.program_id(1) * DIM + tl.arange(0, DIM)
        inside = column < dim
        total = tl.zeros([DIM], tl.float32)
        for first in range(start, stop, ENTRIES):
            entry = first + tl.arange(0, ENTRIES)
            known = entry < stop
            factor = tl.load(factors_at + entry, mask=known, other=0.0)[:, None]
            row = tl.load(columns_at + entry, mask=known, other=0)
            there = table_at + row[:, None] * dim + column[None, :]
            total += tl.sum(factor * tl.load(there, mask=known[:, None] & inside[None, :], other=0.0), axis=0)
        if alone:
            tl.store(out_at + own * dim + column, total, mask=inside)
        else:
            tl.atomic_add(out_at + own * dim + column, total, mask=inside, sem="relaxed")


class _HistorySums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, *where: Tensor) -> Tensor:
        users = where[3]
        out = table.new_empty(*users.shape, table.shape[-1])
        _launch(table, where, out, backward=False)
        ctx.save_for_backward(*where)
        ctx.shape = table.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].contiguous()
        table = gradient.new_zeros(ctx.shape)
        _launch(table, ctx.saved_tensors, gradient, backward=True)
        return table, *[None] * len(ctx.saved_tensors)


def _launch(table: Tensor, where: tuple[Tensor, ...], out: Tensor, backward: bool) -> None:
    ptr, items, factors, users, place = where
    runs, size, dim = out.shape
    _over_histories[size, runs](
        table, ptr, items, factors, users, place, out, size, table.shape[1], len(items), dim,
        BACKWARD=backward, DIM=padded(dim), ENTRIES=ENTRIES, num_warps=1,
    )  # fmt: skip


def history_sums(table: Tensor, ptr: Tensor, items: Tensor, factors: Tensor, users: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [R, rows, dim] of a table, times `factors` [R, n], summed over the histories of users [R, B], which are
    items[ptr[u]:ptr[u + 1]]: [R, B, dim], each user once. And where in it each of `users` is found: [R, B].
    """
    runs, size = users.shape
    num_users, device = len(ptr) - 1, users.device
    keys = users + run_offsets(runs, num_users, device)
    own = torch.arange(size, device=device).expand(runs, -1)
    place = torch.empty(runs * num_users, dtype=torch.long, device=device)
    place = place.scatter_(0, keys.view(-1), own.reshape(-1))[keys]  # any place of a user is as good as another
    sums: Tensor = _HistorySums.apply(  # type: ignore[no-untyped-call]
        table.contiguous(), ptr, items, factors.contiguous(), users.contiguous(), place
    )
    return sums, place


def parts_of(ptr: Tensor) -> Tensor:
    """The lists of a CSR in parts that are short enough to be summed by themselves: of each part its list, where it
    starts and ends, and whether it is the whole list [P, 4]. Lists that are empty have none."""
    counts = ptr.diff()
    parts = (counts + LONGEST - 1) // LONGEST
    own = torch.repeat_interleave(torch.arange(len(counts), device=ptr.device), parts)
    number = torch.arange(len(own), device=ptr.device) - (parts.cumsum(0) - parts)[own]
    starts = ptr[own] + LONGEST * number
    return torch.stack([own, starts, torch.minimum(starts + LONGEST, ptr[own + 1]), parts[own] == 1], 1)


def neighbour_sums(table: Tensor, columns: Tensor, factors: Tensor, parts: Tensor) -> Tensor:
    """Rows [rows, dim] of a table, times `factors` [n], summed over as many lists of `columns` [n], which `parts_of`
    has cut: [rows, dim]. It has no gradient."""
    table, dim = table.contiguous(), table.shape[1]
    out = torch.zeros_like(table)
    wide = min(COLUMNS, padded(dim))
    _over_neighbours[len(parts), -(-dim // wide)](
        table, columns, factors, parts, out, dim, DIM=wide, ENTRIES=ENTRIES, num_warps=1
    )
    return out
