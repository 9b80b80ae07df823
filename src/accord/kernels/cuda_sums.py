"""Rows of a table, times factors, summed over lists of them, as one kernel on CUDA: over the histories of a batch's
users, and over the neighbours of every node of a graph. The torch code next to the callers defines both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from accord.kernels.cuda import padded
from accord.kernels.lookups import run_offsets

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SHORT = 16  # entries of a list, at most, that are taken one after another, with those of other lists
FEW = 2**14  # lists: of so few none is short, as a GPU waits for the longest of them, and not for its memory
ENTRIES = 16  # of a longer one, at once
LONGEST = 128  # part of a list that is summed by itself
COLUMNS = 128  # of a row, at most, at once
NUMBERS = 1024  # of the rows of short lists, at once


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_histories(  # type: ignore[no-untyped-def]
        table_at, ptr_at, items_at, factors_at, users_at, place_at, out_at, size, num_rows, num_entries, dim,
        BACKWARD: tl.constexpr, DIM: tl.constexpr, ENTRIES: tl.constexpr,
    ):  # fmt: skip
        run, place = tl.program_id(1).to(tl.int64), tl.program_id(0)
        column = tl.arange(0, DIM)
        inside = column < dim
        here = out_at + (run * size + place) * dim + column
        if tl.load(place_at + run * size + place) == place:
            user = tl.load(users_at + run * size + place)
            start, end = tl.load(ptr_at + user), tl.load(ptr_at + user + 1)
            total = tl.load(here, mask=inside, other=0.0) if BACKWARD else tl.zeros([DIM], tl.float32)
            for first in range(start, end, ENTRIES):
                entry = first + tl.arange(0, ENTRIES)
                inside_list = entry < end
                factor = tl.load(factors_at + run * num_entries + entry, mask=inside_list, other=0.0)[:, None]
                row = run * num_rows + tl.load(items_at + entry, mask=inside_list, other=0).to(tl.int64)
                there = table_at + row[:, None] * dim + column[None, :]
                if BACKWARD:
                    mask = (factor != 0) & inside[None, :]
                    tl.atomic_add(there, factor * total[None, :], mask=mask, sem="relaxed")
                else:
                    mask = inside_list[:, None] & inside[None, :]
                    total += tl.sum(factor * tl.load(there, mask=mask, other=0.0), axis=0)
            if not BACKWARD:
                tl.store(here, total, mask=inside)
        elif not BACKWARD:
            tl.store(here, tl.zeros([DIM], tl.float32), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_lists(  # type: ignore[no-untyped-def]
        table_at, columns_at, factors_at, lists_at, more_at, out_at, num_lists, num_rows, dim, divisor,
        MORE: tl.constexpr, DIM: tl.constexpr, LISTS: tl.constexpr,
    ):  # fmt: skip
        """Short lists, many at once, an entry of each after another."""
        run = tl.program_id(1).to(tl.int64) * num_rows
        lists = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
        exists = lists < num_lists
        list_at = lists_at + 3 * lists
        here = run + tl.load(list_at, mask=exists, other=0)
        start = tl.load(list_at + 1, mask=exists, other=0)
        stop = tl.load(list_at + 2, mask=exists, other=0)
        column = tl.program_id(2) * DIM + tl.arange(0, DIM)
        inside = (column < dim)[None, :]
        place = here[:, None] * dim + column[None, :]
        total = tl.zeros([LISTS, DIM], tl.float32)
        for number in range(0, tl.max(stop - start, axis=0)):
            entry = start + number
            left = entry < stop
            factor = tl.load(factors_at + entry, mask=left, other=0.0)[:, None]
            row = run + tl.load(columns_at + entry, mask=left, other=0)
            there = table_at + row[:, None] * dim + column[None, :]
            total += factor * tl.load(there, mask=left[:, None] & inside, other=0.0)
        mask = exists[:, None] & inside
        if MORE:
            total += tl.load(more_at + place, mask=mask, other=0.0)
        tl.store(out_at + place, total / divisor, mask=mask)

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_parts(  # type: ignore[no-untyped-def]
        table_at, columns_at, factors_at, part_at, out_at, num_rows, dim, divisor,
        DIM: tl.constexpr, ENTRIES: tl.constexpr,
    ):  # fmt: skip
        """A part of a long list, many entries at once."""
        run = tl.program_id(1).to(tl.int64) * num_rows
        part = part_at + 3 * tl.program_id(0)
        here, start, stop = run + tl.load(part), tl.load(part + 1), tl.load(part + 2)
        column = tl.program_id(2) * DIM + tl.arange(0, DIM)
        inside = column < dim
        total = tl.zeros([DIM], tl.float32)
        for first in range(start, stop, ENTRIES):
            entry = first + tl.arange(0, ENTRIES)
            inside_list = entry < stop
            factor = tl.load(factors_at + entry, mask=inside_list, other=0.0)[:, None]
            row = run + tl.load(columns_at + entry, mask=inside_list, other=0)
            there = table_at + row[:, None] * dim + column[None, :]
            total += tl.sum(factor * tl.load(there, mask=inside_list[:, None] & inside[None, :], other=0.0), axis=0)
        tl.atomic_add(out_at + here * dim + column, total / divisor, mask=inside, sem="relaxed")


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
    items[ptr[u]:ptr[u + 1]]: [R, B, dim], each user once. And where in it each of `users` is: [R, B].
    """
    runs, size = users.shape
    num_users, device = len(ptr) - 1, users.device
    keys = users + run_offsets(runs, num_users, device)
    places = torch.arange(size, device=device).expand(runs, -1)
    place = torch.empty(runs * num_users, dtype=torch.long, device=device)
    place = place.scatter_(0, keys.view(-1), places.reshape(-1))[keys]  # any place of a user is as good as another
    sums: Tensor = _HistorySums.apply(  # type: ignore[no-untyped-call]
        table.contiguous(), ptr, items, factors.contiguous(), users.contiguous(), place
    )
    return sums, place


class Lists(NamedTuple):
    """The lists of a CSR as two kernels take them: [n, 3] are the list, where it starts and where it ends."""

    short: Tensor  # whole lists, the shorter first, so that those at once are about as long; empty ones are among them
    parts: Tensor  # of long lists
    long: Tensor  # the long lists themselves


def lists_of(ptr: Tensor) -> Lists:
    """The lists of which each is cut into parts that are short enough to be summed by themselves."""
    counts = ptr.diff()
    most = SHORT if len(counts) > FEW else -1
    short = torch.stack([torch.arange(len(counts), device=ptr.device), ptr[:-1], ptr[1:]], 1)
    short = short[counts.argsort(stable=True)][: int((counts <= most).sum())]
    long = (counts > most).nonzero().view(-1)
    parts = (counts[long] + LONGEST - 1) // LONGEST
    lists = torch.repeat_interleave(long, parts)
    number = torch.arange(len(lists), device=ptr.device) - torch.repeat_interleave(parts.cumsum(0) - parts, parts)
    starts = ptr[lists] + LONGEST * number
    return Lists(short, torch.stack([lists, starts, torch.minimum(starts + LONGEST, ptr[lists + 1])], 1), long)


def neighbour_sums(
    table: Tensor, columns: Tensor, factors: Tensor, lists: Lists, more: Tensor | None, divisor: float
) -> Tensor:
    """Rows of a table [R, rows, dim], times `factors` [n], summed over as many lists of `columns` [n], as `lists_of`
    gives them; with `more` [R, rows, dim], if given, added to them, and divided: [R, rows, dim]. It has no gradient."""
    table, more = table.contiguous(), None if more is None else more.contiguous()
    runs, num_rows, dim = table.shape
    wide = min(COLUMNS, padded(dim))
    if not len(lists.short):
        out = torch.zeros_like(table) if more is None else more / divisor
    else:
        out = torch.empty_like(table)
        out[:, lists.long] = 0 if more is None else more[:, lists.long] / divisor
        at_once = NUMBERS // wide
        _over_lists[-(-len(lists.short) // at_once), runs, -(-dim // wide)](
            table, columns, factors, lists.short, table if more is None else more, out, len(lists.short), num_rows, dim,
            float(divisor), MORE=more is not None, DIM=wide, LISTS=at_once, num_warps=4,
        )  # fmt: skip
    if len(lists.parts):
        _over_parts[len(lists.parts), runs, -(-dim // wide)](
            table, columns, factors, lists.parts, out, num_rows, dim, float(divisor),
            DIM=wide, ENTRIES=ENTRIES, num_warps=1,
        )  # fmt: skip
    return out
