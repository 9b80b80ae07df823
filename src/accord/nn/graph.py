"""Propagation over the graph of users and items, as LightGCN does it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.kernels import cuda
from accord.kernels.cuda_sums import neighbour_sums, parts_of
from accord.nn.ranks import ALONE, Ranks


class Graph(nn.Module):
    """The lists of every node's neighbours, and what each edge weighs: node n has the neighbours
    columns[starts[n]:starts[n + 1]]."""

    starts: Tensor
    columns: Tensor
    values: Tensor

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor) -> None:
        super().__init__()
        for name, tensor in (("starts", starts), ("columns", columns), ("values", values)):
            self.register_buffer(name, tensor, persistent=False)
        self.parts: Tensor | None = None  # where a GPU multiplies

    def times(self, nodes: Tensor) -> Tensor:
        """What its neighbours send to every node: [N, dim] -> [N, dim]."""
        if cuda.usable(nodes):
            if self.parts is None or self.parts.device != nodes.device:
                self.parts = parts_of(self.starts)
            return neighbour_sums(nodes, self.columns, self.values, self.parts)
        return F.embedding_bag(self.columns, nodes, self.starts[:-1], mode="sum", per_sample_weights=self.values)


class _Propagate(torch.autograd.Function):
    """Mean of E, AE, A²E, … in Horner form. A is symmetric, so the gradient is the same function of the gradient."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, nodes: Tensor, num_layers: int, ranks: Ranks, num_users: int) -> Tensor:
        ctx.graph, ctx.settings = graph, (num_layers, ranks, num_users)
        return _horner(graph, nodes, num_layers, ranks, num_users)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None, None, None]:
        _, ranks, num_users = ctx.settings
        gradient = ranks.sum_rows(gradients[0].contiguous(), num_users, "gradients of items")
        gradient = _horner(ctx.graph, gradient, *ctx.settings)
        ranks.divide_rows(gradient, num_users)
        return None, gradient, None, None, None


def _horner(graph: Graph, nodes: Tensor, num_layers: int, ranks: Ranks, num_users: int) -> Tensor:
    z = nodes
    for _ in range(num_layers):
        z = graph.times(z)
        ranks.sum({"items of a layer": z[num_users:]})  # what the users of each process send to the items
        z.add_(nodes)
    return z / (num_layers + 1)


def propagate(graph: Graph, nodes: Tensor, num_layers: int, ranks: Ranks = ALONE, num_users: int = 0) -> Tensor:
    """LightGCN's propagation over a symmetric graph: nodes [R, N, dim] -> [R, N, dim].

    On a GPU the graph is read once for all runs. On a CPU each run's vectors stay in the cache if they go alone.
    The first `num_users` nodes are this process's own; what is sent to the others, the items, is summed over all.
    """
    runs, num_nodes, dim = nodes.shape
    rest = num_layers, ranks, num_users
    if not nodes.is_cuda:
        found = [_Propagate.apply(graph, own, *rest) for own in nodes]  # type: ignore[no-untyped-call]
        return found[0].unsqueeze(0) if runs == 1 else torch.stack(found)
    flat = nodes.transpose(0, 1).reshape(num_nodes, runs * dim)
    out: Tensor = _Propagate.apply(graph, flat, *rest)  # type: ignore[no-untyped-call]
    return out.view(num_nodes, runs, dim).transpose(0, 1)
