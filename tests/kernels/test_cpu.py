"""Compiled loops do what plain torch does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.kernels import cpu
from accord.nn.layers import Embedding, pair_dot
from accord.training.stack import train_stack
from helpers import CPU, plan_small, small_data

pytest.importorskip("numba", reason="numba is not installed (accord[fast])")


def plain(monkeypatch):
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
    plain(monkeypatch)
    expected = pair_dot(*tables, *ids, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad((expected * slopes).sum(), wanted), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sums_of_rows_of_distinct_ids_and_their_gradient():
    """Looked up once each, however often they occur; runs differ in how many there are."""
    tables = table(30, seed=1), table(20, seed=2)
    ids = [torch.randint(0, rows, (2, 77), generator=torch.Generator().manual_seed(3)) for rows in (30, 20)]
    ids[0][1] = 7
    slopes = torch.randn(2, 77, 5)
    found = [cpu.distinct(part, rows) for part, rows in zip(ids, (30, 20), strict=True)]
    assert found[0][0].shape == (2, len(ids[0][0].unique()))
    assert (found[0][0][1] == 7).all()
    for part, (rows, places) in zip(ids, found, strict=True):
        assert torch.equal(rows.gather(1, places), part)
    weights = [one.weight for one in tables]
    rows = [one(rows) for one, (rows, _) in zip(tables, found, strict=True)]
    sums = cpu.pair_sum(*rows, *(places for _, places in found))
    expected = sum(one.weight[torch.arange(2)[:, None], part] for one, part in zip(tables, ids, strict=True)).relu()
    torch.testing.assert_close(sums, expected)
    gradients = (torch.autograd.grad((x * slopes).sum(), weights) for x in (sums, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_ids_in_ascending_order():
    """Of two runs of which one has more of them; and all of the few rows that there are."""
    ids = torch.tensor([[7, 2, 7, 5], [1, 1, 1, 1]])
    rows, places = cpu.distinct_ascending(ids, 9)
    assert [own.tolist() for own in rows] == [[2, 5, 7], [1]]
    assert places.tolist() == [[2, 0, 2, 1], [0, 0, 0, 0]]
    rows, places = cpu.distinct_ascending(torch.tensor([[1, 0, 1, 0, 1]]), 2)
    assert rows[0].tolist() == [0, 1]
    assert places.tolist() == [[1, 0, 1, 0, 1]]


@pytest.mark.parametrize("dim", [1, 3])
def test_rows_looked_up_and_their_gradient(dim):
    one, ids, slopes = table(6, dim), torch.tensor([[3, 0, 3, 5], [1, 1, 1, 2]]), torch.randn(2, 4, dim)
    found = cpu.take_rows(one.weight, ids)
    expected = one.weight[torch.arange(2)[:, None], ids]
    assert torch.equal(found, expected)
    ours, theirs = (torch.autograd.grad((x * slopes).sum(), one.weight)[0] for x in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_neumf_scores_in_small_parts(num_layers, threads, monkeypatch):
    """Of two runs, with more items than fit into a part, for one user and for many; and torch's threads stay."""
    run = plan_small("neumf", "normal", (3, 5), epochs=1, model__num_layers=num_layers)
    method, _ = train_stack(small_data(), run, CPU)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    monkeypatch.setattr(cpu, "PAIRS_WITHIN_CACHE", 7)
    try:
        for users in (torch.tensor([4]), torch.arange(10)):
            with torch.no_grad():
                found = method.eval().score_all(users)
                assert torch.get_num_threads() == threads
                with monkeypatch.context() as patch:
                    plain(patch)
                    expected = method.score_all(users)
            assert found.shape[-1] > 2 * cpu.PAIRS_WITHIN_CACHE
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            with torch.inference_mode():
                assert torch.equal(method.score_all(users), found)
    finally:
        torch.set_num_threads(before)


def test_looked_up_rows_and_where_their_gradient_goes():
    weight = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    ids = torch.tensor([[2, 2], [0, 1]])
    rows = cpu.take_rows(weight, ids)
    assert rows.tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]
    rows.sum().backward()
    assert weight.grad[:, :, 0].tolist() == [[0, 0, 2], [1, 1, 0]]
    kept = weight.detach().numpy() * 0
    weight.grad = None
    cpu.take_rows(weight, ids, (kept, np.array([[1, 1], [0, 2]]))).sum().backward()
    assert weight.grad is None
    assert kept[:, :, 0].tolist() == [[0, 2, 0], [1, 0, 1]], "in the places that were given"


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
def test_points_between_what_rows_have(threads, monkeypatch):
    """Ten items: row 0 has 1, 4 and 5, row 1 none, row 2 item 0. Points count what is left of them."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    ptr, free = torch.tensor([0, 3, 3, 4]), torch.tensor([7, 10, 9])
    cuts, skipped = torch.tensor([1, 3, 3, 20]), torch.tensor([1, 2, 3, 1, 0])
    rows, numbers = torch.tensor([0, 0, 0, 0, 1, 2]), torch.tensor([[0, 1, 3, 7, 9, 8], [6, 2, 10, 14, 29, 9]])
    found = cpu.unseen(rows, numbers, free, ptr, cuts, skipped, 10)
    assert found.tolist() == [[0, 2, 6, 0, 9, 9], [9, 3, 6, 0, 9, 1]]
    many = cpu.unseen(rows.repeat(3000), numbers.repeat(1, 3000), free, ptr, cuts, skipped, 10)
    assert torch.equal(many, found.repeat(1, 3000))


@pytest.mark.parametrize("sorted_by_row", [True, False])
def test_points_of_rows_that_have_many(sorted_by_row):
    """Rows with 0 to 200 of 500 items, each with up to 200 numbers, against what is left of the line, listed."""
    rng = np.random.default_rng(0)
    own = [np.sort(rng.choice(500, size, replace=False)) for size in (0, 1, 2, 63, 64, 65, 200)]
    ptr = torch.tensor(np.cumsum([0, *map(len, own)]))
    cuts = torch.tensor(np.concatenate([row * 500 + items - np.arange(len(items)) for row, items in enumerate(own)]))
    skipped = torch.tensor(np.concatenate([*(np.arange(len(items)) + 1 for items in own), [0]]))
    rows = np.repeat(np.arange(7), [200, 1, 63, 64, 65, 129, 200])
    rows = torch.tensor(rows if sorted_by_row else rng.permutation(rows))
    numbers = torch.tensor(rng.integers(2**62, size=(2, len(rows))))
    free = torch.tensor([500 - len(items) for items in own])
    found = cpu.unseen(rows, numbers, free, ptr, cuts, skipped, 500)
    left = [np.setdiff1d(np.arange(500), items) for items in own]
    expected = [
        [left[row][number % len(left[row])] for row, number in zip(rows.tolist(), run.tolist(), strict=True)]
        for run in numbers
    ]
    assert found.tolist() == expected


def test_histories_end_to_end():
    ptr = torch.tensor([0, 2, 2, 3, 3])
    owners, places = cpu.end_to_end(torch.tensor([[0, 2, 3], [3, 1, 1]]), ptr, 4)
    assert owners.tolist() == [[0, 0, 2, 2], [1, 1, 1, 1]]
    assert places.tolist() == [[0, 1, 2, 2], [2, 2, 2, 2]]


@pytest.mark.parametrize("dropped", [False, True])
def test_sums_over_histories_and_their_gradient(dropped):
    """Of two runs with other users each, against one entry after another."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2, 5, 3, generator=generator, requires_grad=True)
    ptr, items = torch.tensor([0, 3, 3, 7]), torch.tensor([0, 2, 4, 1, 2, 3, 4], dtype=torch.int32)
    factors = torch.rand(7, generator=generator)
    users = [torch.tensor([2, 0]), torch.tensor([1, 2])]
    entries = [[3, 4, 5, 6, 0, 1, 2], [3, 4, 5, 6]]
    kept = [
        (torch.rand(len(own), generator=generator) < 0.5).float() * 2 if dropped else torch.empty(0) for own in entries
    ]
    found = cpu.history_sums(table, ptr, items, factors, users, kept)
    expected = []
    for run, own in enumerate(entries):
        weights = factors[own] * (kept[run] if dropped else 1)
        rows = table[run][items[own].long()] * weights.unsqueeze(1)
        sizes = [int(ptr[user + 1] - ptr[user]) for user in users[run]]
        expected += [part.sum(0) for part in torch.split(rows, sizes)]
    torch.testing.assert_close(found, torch.stack(expected))
    slopes = torch.randn(4, 3, generator=generator)
    gradients = [torch.autograd.grad((x * slopes).sum(), table)[0] for x in (found, torch.stack(expected))]
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(*gradients)


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
