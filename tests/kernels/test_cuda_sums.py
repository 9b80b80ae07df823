"""Sums over histories and over neighbours on a CUDA device, against one list after another."""

from __future__ import annotations

import pytest
import torch

from accord.kernels.cuda_sums import LONGEST, history_sums, neighbour_sums, parts_of

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
LENGTHS = (0, 3, LONGEST, 1, LONGEST + 1, 4 * LONGEST + 7, 17, 0)


def lists(rows, device="cpu"):
    """Lists of these lengths, of rows of a table: where each starts, and the rows."""
    ptr = torch.tensor([0, *LENGTHS]).cumsum(0)
    items = torch.randint(0, rows, (int(ptr[-1]),), generator=torch.Generator().manual_seed(1))
    return ptr.to(device), items.to(device)


def sums_of(table, ptr, items, factors, wanted):
    """One list after another: [lists, dim]."""
    return torch.stack(
        [(table[items[ptr[n] : ptr[n + 1]]] * factors[ptr[n] : ptr[n + 1], None]).sum(0) for n in wanted.tolist()]
    )


def test_parts_cover_every_list_once():
    ptr, items = lists(5)
    covered = [
        (own, place)
        for own, start, stop, alone in parts_of(ptr).tolist()
        for place in range(start, stop)
        if alone == (LENGTHS[own] <= LONGEST) and stop - start <= LONGEST
    ]
    assert [place for _, place in covered] == list(range(len(items)))
    assert all(ptr[own] <= place < ptr[own + 1] for own, place in covered)


@needs_cuda
@pytest.mark.parametrize("dim", [5, 64, 200])
def test_sums_over_neighbours(dim):
    ptr, items = lists(len(LENGTHS), "cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    table = torch.randn(len(LENGTHS), dim, generator=generator, device="cuda")
    factors = torch.rand(len(items), generator=generator, device="cuda")
    found = neighbour_sums(table, items, factors, parts_of(ptr))
    torch.testing.assert_close(
        found, sums_of(table, ptr, items, factors, torch.arange(len(LENGTHS))), rtol=1e-4, atol=1e-4
    )


@needs_cuda
@pytest.mark.parametrize("dim", [5, 32])
def test_sums_over_histories_and_their_gradient(dim):
    """Users come several times, in each run others; what is dropped (a factor of 0) adds nothing."""
    runs, rows = 3, 20
    ptr, items = lists(rows, "cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    table = torch.randn(runs, rows, dim, generator=generator, device="cuda", requires_grad=True)
    factors = torch.rand(runs, len(items), generator=generator, device="cuda")
    factors[factors < 0.3] = 0
    users = torch.randint(0, len(LENGTHS), (runs, 30), generator=generator, device="cuda")
    slopes = torch.randn(runs, 30, dim, generator=generator, device="cuda")
    sums, place = history_sums(table, ptr, items.int(), factors, users)
    found = sums.gather(1, place.unsqueeze(-1).expand(-1, -1, dim))
    expected = torch.stack([sums_of(table[run], ptr, items, factors[run], users[run]) for run in range(runs)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad((out * slopes).sum(), table)[0] for out in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
