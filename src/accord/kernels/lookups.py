"""Rows of tables [R, rows, dim] that are looked up by ids [R, B]: the torch code that defines them, and the kernels."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from accord.kernels import cpu, cuda


def run_offsets(runs: int, rows: int, device: torch.device) -> Tensor:
    """[R, 1]: where each run's rows begin in the [R * rows, dim] view."""
    return torch.arange(0, runs * rows, rows, device=device).unsqueeze(1)


def _flat(ids: Tensor, rows: int) -> Tensor:
    """Ids [R, B] as rows of the [R * rows, dim] view: [R * B]."""
    return (ids if len(ids) == 1 else ids + run_offsets(len(ids), rows, ids.device)).reshape(-1)


def reference_rows(table: Tensor, ids: Tensor) -> Tensor:
    runs, rows, dim = table.shape
    # not F.embedding: the gradient of index_select is an index_add, a third of the cost of embedding's gradient
    return table.reshape(runs * rows, dim).index_select(0, _flat(ids, rows)).view(*ids.shape, dim)


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, into: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.into = into
        return reference_rows(table, ids)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        _, rows, dim = ctx.into.shape
        ctx.into.view(-1, dim).index_add_(0, _flat(ctx.saved_tensors[0], rows), gradients[0].reshape(-1, dim))
        return None, None, None


def take_rows(table: Tensor, ids: Tensor, into: Tensor | None = None) -> Tensor:
    """`reference_rows`. With `into`, a tensor like the table, the gradient of the table is added there."""
    if into is None:
        return reference_rows(table, ids)
    rows: Tensor = _TakeRows.apply(table, ids, into)  # type: ignore[no-untyped-call]
    return rows


def reference_dot(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None = None) -> Tensor:
    """Dot products of rows of two tables, or of one, each dimension weighted by [R, dim] if given: [R, B]."""
    product = reference_rows(a, a_ids) * reference_rows(b, b_ids)
    return product.sum(-1) if weight is None else (product @ weight.unsqueeze(-1)).squeeze(-1)


class _RowDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: ModuleType, a: Tensor, b: Tensor | None, weight: Tensor | None, a_ids: Tensor, b_ids: Tensor,
        into: tuple[Tensor | None, Tensor | None],
    ) -> Any:  # fmt: skip
        ctx.save_for_backward(a, b, weight, a_ids, b_ids)
        ctx.kernels, ctx.into = kernels, into
        return kernels.dot(a, a if b is None else b, a_ids, b_ids, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, weight, a_ids, b_ids = ctx.saved_tensors
        into_a, into_b = ctx.into
        tables = {
            number: table
            for number, (table, into) in enumerate(((a, into_a), (b, into_b), (weight, None)))
            if table is not None and into is None
        }
        sizes = [table.numel() for table in tables.values()]
        zeros = a.new_zeros(sum(sizes)).split(sizes)  # filled at once: on a GPU one kernel instead of three
        slopes = {number: part.view_as(tables[number]) for number, part in zip(tables, zeros, strict=True)}
        into_a = slopes[0] if into_a is None else into_a
        into_b = slopes.get(1, into_a) if into_b is None else into_b  # without a b, both are rows of a
        ctx.kernels.add_dot_slopes(
            a, a if b is None else b, a_ids, b_ids, weight, gradients[0].contiguous(), into_a, into_b, slopes.get(2)
        )
        return None, slopes.get(0), slopes.get(1), slopes.get(2), None, None, None


def row_dot(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None = None,
    into: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Tensor:  # fmt: skip
    """`reference_dot`, by a kernel where there is one. With `into`, the gradients of the tables are added there."""
    kernels = cuda if cuda.usable(a) else cpu if cpu.usable(a) else None  # both have the same two functions
    if kernels is None:
        return reference_dot(a, b, a_ids, b_ids, weight)
    tables = a.contiguous(), None if b is a else b.contiguous(), None if weight is None else weight.contiguous()
    ids = a_ids.contiguous(), b_ids.contiguous()
    dots: Tensor = _RowDot.apply(kernels, *tables, *ids, into)  # type: ignore[no-untyped-call]
    return dots


def places_of(ptr: Tensor, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The CSR rows of some users, end to end: each entry's place in `users`, in the CSR, and each row's start."""
    counts = ptr[users + 1] - ptr[users]
    starts = counts.cumsum(0) - counts
    owner = torch.repeat_interleave(torch.arange(len(users), device=users.device), counts)
    within = torch.arange(len(owner), device=users.device) - starts[owner]
    return owner, ptr[users][owner] + within, starts


def entries_of(ptr: Tensor, items: Tensor, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with each entry's item."""
    owner, places, starts = places_of(ptr, users)
    return owner, items[places].long(), starts
