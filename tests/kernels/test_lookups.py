"""Rows that are looked up and multiplied: plain torch is the definition, and every form of it the same."""

from __future__ import annotations

import pytest
import torch

from accord.kernels import cpu
from accord.kernels.lookups import (
    entries_of,
    places_of,
    reference_dot,
    reference_rows,
    row_dot,
    run_offsets,
    take_rows,
)

RUNS, ROWS, DIM, PAIRS = 2, 7, 3, 11


@pytest.fixture(params=["compiled", "plain"])
def form(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(cpu, "usable", lambda _tensor: False)


def tables(seed=0):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(RUNS, ROWS, DIM, generator=generator, requires_grad=True) for _ in range(2))
    ids = [torch.randint(0, ROWS, (RUNS, PAIRS), generator=generator) for _ in range(2)]
    return a, b, *ids


def test_reference_rows_by_hand():
    table = torch.arange(RUNS * ROWS * DIM, dtype=torch.float32).view(RUNS, ROWS, DIM)
    ids = torch.tensor([[6, 0], [1, 1]])
    expected = torch.stack([table[0, [6, 0]], table[1, [1, 1]]])
    assert torch.equal(reference_rows(table, ids), expected)
    assert run_offsets(RUNS, ROWS, table.device).tolist() == [[0], [ROWS]]


def test_looked_up_rows_and_where_their_gradient_goes():
    weight = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    ids = torch.tensor([[2, 2], [0, 1]])
    rows = take_rows(weight, ids)
    assert rows.tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]
    rows.sum().backward()
    assert weight.grad[:, :, 0].tolist() == [[0, 0, 2], [1, 1, 0]]
    gradient = torch.ones(2, 3, 2)
    weight.grad = None
    assert torch.equal(take_rows(weight, ids, gradient), rows)
    take_rows(weight, ids, gradient).sum().backward()
    assert weight.grad is None
    assert gradient[:, :, 0].tolist() == [[1, 1, 3], [2, 2, 1]], "added to what is given"


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("weighted", [True, False])
def test_dots_and_their_gradients(weighted):
    a, b, a_ids, b_ids = tables(1)
    weight = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]) if weighted else None
    plain = [x.detach().clone().requires_grad_() for x in (a, b)]
    found, expected = row_dot(a, b, a_ids, b_ids, weight), reference_dot(*plain, a_ids, b_ids, weight)
    by_hand = [
        sum(float(a[r, i, d] * b[r, j, d]) * (1 if weight is None else float(weight[r, d])) for d in range(DIM))
        for r in range(RUNS)
        for i, j in zip(a_ids[r].tolist(), b_ids[r].tolist(), strict=True)
    ]
    torch.testing.assert_close(expected.flatten(), torch.tensor(by_hand))
    torch.testing.assert_close(found, expected)
    for dots in (found, expected):
        (dots**2).sum().backward()
    for ours, theirs in zip((a, b), plain, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.usefixtures("form")
def test_both_rows_may_be_of_one_table():
    """As the nodes of a graph are, users and items; here some rows are even of both."""
    nodes, _, a_ids, b_ids = tables(2)
    plain = nodes.detach().clone().requires_grad_()
    found, expected = row_dot(nodes, nodes, a_ids, b_ids), reference_dot(plain, plain, a_ids, b_ids)
    torch.testing.assert_close(found, expected)
    for dots in (found, expected):
        (dots**2).sum().backward()
    torch.testing.assert_close(nodes.grad, plain.grad)


def test_entries_of_some_users_lie_end_to_end():
    ptr, items = torch.tensor([0, 2, 2, 5]), torch.tensor([4, 9, 1, 3, 7], dtype=torch.int32)
    owner, found, starts = entries_of(ptr, items, torch.tensor([2, 1, 0]))
    assert owner.tolist() == [0, 0, 0, 2, 2]
    assert found.tolist() == [1, 3, 7, 4, 9]
    assert starts.tolist() == [0, 3, 3]
    assert places_of(ptr, torch.tensor([0]))[1].tolist() == [0, 1]
