"""Propagation against torch_geometric."""

from __future__ import annotations

import pytest
import torch

from accord.models.lightgcn import interaction_graph
from accord.nn.graph import propagate
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
