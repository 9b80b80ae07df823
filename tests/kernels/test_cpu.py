"""Compiled loops do what torch does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.kernels import cpu
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


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(monkeypatch):
    from numba.core.caching import CompileResultCacheImpl

    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    made = cpu._compiled.__wrapped__()
    assert made.keys() == cpu._compiled().keys()
    out, ids, table = np.zeros(1, np.float32), np.array([1]), np.ones((3, 2), np.float32)
    made["dot"](table, table, ids, ids, np.zeros(0, np.float32), out)
    assert out.tolist() == [2]


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
