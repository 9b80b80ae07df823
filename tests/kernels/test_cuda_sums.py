"""Sums over histories and over neighbours on a CUDA device, against one list after another."""

from __future__ import annotations

import pytest
import torch

from accord.kernels import cuda_sums
from accord.kernels.cuda_sums import LONGEST, SHORT, history_sums, lists_of, neighbour_sums

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
LENGTHS = (0, 3, LONGEST, 1, LONGEST + 1, 4 * LONGEST + 7, SHORT + 1, SHORT, 0)


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


@pytest.fixture(params=["many", "few"])
def limit(request, monkeypatch):
    """Entries of a list that is short: none is, where there are few."""
    if request.param == "many":
        monkeypatch.setattr(cuda_sums, "FEW", len(LENGTHS) - 1)
    return SHORT if request.param == "many" else -1


def test_lists_are_whole_or_in_parts_and_every_entry_is_in_one(limit):
    ptr, items = lists(5)
    short, parts, long = lists_of(ptr)
    assert [stop - start for _, start, stop in short.tolist()] == sorted(n for n in LENGTHS if n <= limit)
    assert long.tolist() == [own for own, length in enumerate(LENGTHS) if length > limit]
    assert max(stop - start for _, start, stop in parts.tolist()) == LONGEST
    covered = sorted((n, own) for own, start, stop in [*short.tolist(), *parts.tolist()] for n in range(start, stop))
    assert [place for place, _ in covered] == list(range(len(items)))
    assert all(ptr[own] <= place < ptr[own + 1] for place, own in covered)


@needs_cuda
@pytest.mark.parametrize("dim", [5, 64, 200])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.usefixtures("limit")
def test_sums_over_neighbours(dim, added):
    runs, rows = 2, len(LENGTHS)
    ptr, items = lists(rows, "cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    table, more = torch.randn(2, runs, rows, dim, generator=generator, device="cuda")
    factors = torch.rand(len(items), generator=generator, device="cuda")
    found = neighbour_sums(table, items, factors, lists_of(ptr), more if added else None, 3)
    expected = torch.stack([sums_of(own, ptr, items, factors, torch.arange(rows)) for own in table])
    torch.testing.assert_close(found, (expected + more * added) / 3, rtol=1e-4, atol=1e-4)


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
