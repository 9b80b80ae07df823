"""LightGCN's propagation by torch_geometric, and a graph to propagate over."""

from __future__ import annotations

import torch

from helpers import csr, random_csr


def with_strangers():
    """Random pairs, and a user and an item without any."""
    matrix = random_csr(17, 11, 0.3)
    return csr(18, 12, list(zip(matrix.users, matrix.items, strict=True)))


def oracle(train, nodes, num_layers):
    """Mean of the layers of an LGConv stack, one run after another: [R, N, dim]."""
    from torch_geometric.nn import LGConv  # takes seconds, and not every worker has a test that needs it

    users, items = torch.from_numpy(train.users), torch.from_numpy(train.items) + train.num_users
    edges = torch.stack([torch.cat([users, items]), torch.cat([items, users])])
    convolution, runs = LGConv(), []
    for run in nodes:
        layers = [run]
        for _ in range(num_layers):
            layers.append(convolution(layers[-1], edges))
        runs.append(torch.stack(layers).mean(0))
    return torch.stack(runs)
