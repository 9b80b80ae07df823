"""Rows of tables [R, rows, dim] that are looked up by ids [R, B]: plain torch, and the kernels that do the same."""

from __future__ import annotations

import torch
from torch import Tensor

from accord.kernels import cpu, cuda

Into = cpu.Into | Tensor  # where gradients belong, on a CPU and on CUDA


def run_offsets(runs: int, rows: int, device: torch.device) -> Tensor:
    """[R, 1]: where each run's rows begin in the [R * rows, dim] view."""
    return torch.arange(0, runs * rows, rows, device=device).unsqueeze(1)


def plain_rows(table: Tensor, ids: Tensor) -> Tensor:
    """The rows of ids: [R, B, dim]."""
    runs, rows, dim = table.shape
    flat = ids if runs == 1 else ids + run_offsets(runs, rows, ids.device)
    # not F.embedding: the gradient of index_select is a plain index_add, a third of the cost of embedding's own
    return table.reshape(runs * rows, dim).index_select(0, flat.view(-1)).view(*ids.shape, dim)


def take_rows(table: Tensor, ids: Tensor, into: Into | None = None) -> Tensor:
    """`plain_rows` in the form that suits the device; with `into`, that is where the rows' gradient is added."""
    if cuda.usable(table):
        return cuda.take_rows(table, ids, _on_cuda(into))
    if cpu.usable(table):
        return cpu.take_rows(table, ids, _on_cpu(into))
    return plain_rows(table, ids)


def _on_cuda(into: Into | None) -> Tensor | None:
    assert into is None or isinstance(into, Tensor)
    return into


def _on_cpu(into: Into | None) -> cpu.Into | None:
    assert not isinstance(into, Tensor)
    return into


def plain_dot(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None = None) -> Tensor:
    """Dot products of rows of two tables, or of one, each dimension weighted by [R, dim] if given: [R, B]."""
    product = plain_rows(a, a_ids) * plain_rows(b, b_ids)
    return product.sum(-1) if weight is None else (product @ weight.unsqueeze(-1)).squeeze(-1)


def row_dot(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None = None,
    into: tuple[Into | None, Into | None] = (None, None),
) -> Tensor:  # fmt: skip
    """`plain_dot` in the form that suits the device; with `into`, that is where the rows' gradients are added."""
    if cuda.usable(a):
        return cuda.pair_dot(a, b, a_ids, b_ids, weight, (_on_cuda(into[0]), _on_cuda(into[1])))
    if cpu.usable(a):
        return cpu.pair_dot(a, b, a_ids, b_ids, weight, (_on_cpu(into[0]), _on_cpu(into[1])))
    return plain_dot(a, b, a_ids, b_ids, weight)


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
