"""Propagation over the graph of users and items, as LightGCN does it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.kernels import cuda


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
        self.lists: cuda.Lists | None = None  # where a GPU multiplies

    def times(self, nodes: Tensor, more: Tensor | None = None, divisor: float = 1.0) -> Tensor:
        """What its neighbours send to every node, with `more` added to it, and divided: [R, N, dim] -> [R, N, dim]."""
        if cuda.usable(nodes):
            if self.lists is None or self.lists.short.device != nodes.device:
                self.lists = cuda.lists_of(self.starts)
            return cuda.neighbour_sums(nodes, self.columns, self.values, self.lists, more, divisor)
        sent = [
            F.embedding_bag(self.columns, of_run, self.starts[:-1], mode="sum", per_sample_weights=self.values)
            for of_run in nodes
        ]
        sums = sent[0].unsqueeze(0) if len(sent) == 1 else torch.stack(sent)
        sums = sums if more is None else sums.add_(more)
        return sums if divisor == 1 else sums.div_(divisor)


class _Propagate(torch.autograd.Function):
    """Mean of E, AE, A²E, … in Horner form. A is symmetric, so the gradient is the same function of the gradient."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, nodes: Tensor, num_layers: int) -> Tensor:
        ctx.settings = graph, num_layers
        return _horner(graph, nodes, num_layers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        graph, num_layers = ctx.settings
        return None, _horner(graph, gradient.contiguous(), num_layers), None


def _horner(graph: Graph, nodes: Tensor, num_layers: int) -> Tensor:
    z = nodes
    for layer in range(num_layers):
        z = graph.times(z, nodes, num_layers + 1 if layer == num_layers - 1 else 1)
    return z


def propagate(graph: Graph, nodes: Tensor, num_layers: int) -> Tensor:
    """LightGCN's propagation over a symmetric graph: nodes [R, N, dim] -> [R, N, dim]."""
    vectors: Tensor = _Propagate.apply(graph, nodes, num_layers)  # type: ignore[no-untyped-call]
    return vectors
