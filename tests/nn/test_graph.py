"""Propagation against torch_geometric."""

from __future__ import annotations

import pytest
import torch

from accord.kernels import cuda
from accord.models.lightgcn import interaction_graph
from accord.nn.graph import propagate
from helpers import csr
from propagation import oracle, with_strangers


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_propagation_and_gradient(runs, num_layers):
    train = with_strangers()
    size = train.num_users + train.num_items
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randn(runs, size, 5, generator=generator, requires_grad=True)
    weights = torch.randn(runs, size, 5, generator=generator)
    found = propagate(interaction_graph(train), nodes, num_layers)
    expected = oracle(train, nodes, num_layers)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((out * weights).sum(), nodes)[0] for out in (found, expected)]
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(*gradients)


def test_a_path_of_three_nodes_by_hand():
    """A user and two items: each layer sends vectors along the edges, and the mean is of all layers."""
    train = csr(1, 2, [(0, 0), (0, 1)])
    edge = 2**-0.5  # of every edge: the user has two, each item one
    nodes = torch.tensor([[[1.0], [10.0], [100.0]]])
    first = [110 * edge, edge, edge]
    second = [2 * edge * edge, 110 * edge * edge, 110 * edge * edge]
    for num_layers, expected in ((0, [[1, 10, 100]]), (1, [[1, 10, 100], first]), (2, [[1, 10, 100], first, second])):
        found = propagate(interaction_graph(train), nodes, num_layers).flatten()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32).mean(0))


@pytest.mark.parametrize("many", [True, False])
def test_lists_are_whole_or_in_parts_and_every_entry_is_in_one(many, monkeypatch):
    """Of few lists none is short."""
    lengths = (0, 3, cuda.LONGEST, 1, cuda.LONGEST + 1, 4 * cuda.LONGEST + 7, cuda.SHORT + 1, cuda.SHORT, 0)
    if many:
        monkeypatch.setattr(cuda, "FEW", len(lengths) - 1)
    limit = cuda.SHORT if many else -1
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    short, parts, long = cuda.lists_of(ptr)
    assert [stop - start for _, start, stop in short.tolist()] == sorted(n for n in lengths if n <= limit)
    assert long.tolist() == [row for row, length in enumerate(lengths) if length > limit]
    assert max(stop - start for _, start, stop in parts.tolist()) == cuda.LONGEST
    covered = sorted((n, row) for row, start, stop in [*short.tolist(), *parts.tolist()] for n in range(start, stop))
    assert [place for place, _ in covered] == list(range(int(ptr[-1])))
    assert all(ptr[row] <= place < ptr[row + 1] for place, row in covered)
