"""Compiled loops do what torch does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.kernels import cpu
from accord.kernels.lookups import take_rows
from accord.nn.layers import Embedding, pair_dot

pytest.importorskip("numba", reason="numba is not installed (accord[fast])")


def without_kernels(monkeypatch):
    monkeypatch.setattr(cpu, "usable", lambda _tensor: False)


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


@pytest.mark.parametrize("weighted", [False, True])
def test_dot_products_of_rows_and_their_gradient(weighted, monkeypatch):
    tables = table(30, seed=1), table(20, seed=2)
    weight = torch.randn(2, 5, requires_grad=True) if weighted else None
    ids = [torch.randint(0, rows, (2, 77)) for rows in (30, 20)]
    slopes = torch.randn(2, 77)
    wanted = [tables[0].weight, tables[1].weight, *([] if weight is None else [weight])]
    found = pair_dot(*tables, *ids, weight)
    gradients = torch.autograd.grad((found * slopes).sum(), wanted)
    without_kernels(monkeypatch)
    expected = pair_dot(*tables, *ids, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad((expected * slopes).sum(), wanted), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 3])
def test_rows_looked_up_and_their_gradient(dim):
    one, ids, slopes = table(6, dim), torch.tensor([[3, 0, 3, 5], [1, 1, 1, 2]]), torch.randn(2, 4, dim)
    found = take_rows(one.weight, ids)
    expected = one.weight[torch.arange(2)[:, None], ids]
    assert torch.equal(found, expected)
    ours, theirs = (torch.autograd.grad((x * slopes).sum(), one.weight)[0] for x in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("compiled", [True, False])
def test_looked_up_rows_and_where_their_gradient_goes(compiled, monkeypatch):
    if not compiled:
        without_kernels(monkeypatch)
    weight = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    ids = torch.tensor([[2, 2], [0, 1]])
    rows = take_rows(weight, ids)
    assert rows.tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]
    rows.sum().backward()
    assert weight.grad[:, :, 0].tolist() == [[0, 0, 2], [1, 1, 0]]
    gradient = torch.zeros(2, 3, 2)
    weight.grad = None
    take_rows(weight, ids, (gradient, torch.tensor([[1, 1], [0, 2]]))).sum().backward()
    assert weight.grad is None
    assert gradient[:, :, 0].tolist() == [[0, 2, 0], [1, 0, 1]], "in the places that were given"


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(monkeypatch):
    from numba.core.caching import CompileResultCacheImpl

    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    made = cpu._compiled.__wrapped__()
    assert made.keys() == cpu._compiled().keys()
    out = np.zeros((1, 2), np.float32)
    made["take"](np.ones((3, 2), np.float32), np.array([1]), out)
    assert out.tolist() == [[1, 1]]


def test_only_single_precision_on_the_cpu_is_compiled():
    assert cpu.usable(torch.zeros(1))
    assert not cpu.usable(torch.zeros(1, dtype=torch.float64))
    assert not cpu.usable(torch.zeros(1, dtype=torch.long))


@pytest.mark.parametrize("threads", [1, 2])
def test_best_items_are_shared_out_among_threads(threads):
    scores = torch.randn(300, 50, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        values, items = cpu.top_k(scores, 3, torch.arange(50))
    finally:
        torch.set_num_threads(before)
    expected = scores.topk(3)
    assert torch.equal(values, expected.values)
    assert torch.equal(items, expected.indices)
