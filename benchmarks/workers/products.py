"""The products of matrices that a model cannot do without, alone: no lookups, no loss, no optimiser.

What a library takes beyond this is its own; what it takes less, it does not compute.
"""

import os
from itertools import pairwise

import torch
from pairs import dataset
from turns import work

from accord.models.lightgcn import interaction_graph

PAIRS_AT_ONCE = 1_024  # what lies in the cache is multiplied fastest


def neumf(rows, case):
    """The first layer once per row of its tables, since it is linear before its ReLU; the others once per pair."""
    dim = case["dim"]
    widths = [4 * dim, 2 * dim, dim]
    tables = torch.randn(rows.num_users + rows.num_items, 4 * dim)
    first = torch.randn(4 * dim, 4 * dim)
    weights = [torch.randn(num_in, num_out) for num_in, num_out in pairwise(widths)]
    layers = [(tables, first), *((torch.randn(2 * case["batch"], len(weight)), weight) for weight in weights)]
    some, *outs = (torch.randn(PAIRS_AT_ONCE, width) for width in widths)

    def step():
        for x, weight in layers:
            slope = x @ weight
            slope @ weight.T  # the gradient of what came in
            x.T @ slope  # and of the weight

    def rank():
        tables @ first
        for _ in range(-(-rows.num_users * rows.num_items // PAIRS_AT_ONCE)):
            x = some
            for weight, out in zip(weights, outs, strict=True):
                x = torch.mm(x, weight, out=out)
        tables[: rows.num_users, :dim] @ tables[rows.num_users :, :dim].T

    return step, rank


def lightgcn(rows, case):
    """The graph times the nodes, three times forward and three times back."""
    graph = interaction_graph(rows)
    nodes = torch.randn(1, rows.num_users + rows.num_items, case["dim"])

    def step():
        for _ in range(6):
            graph.times(nodes)

    def rank():
        for _ in range(3):
            graph.times(nodes)
        nodes[0, : rows.num_users] @ nodes[0, rows.num_users :].T

    return step, rank


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_grad_enabled(False)
    data = dataset(pairs)
    rows = data.csr(data.train)
    step, rank = {"neumf": neumf, "lightgcn": lightgcn}[case["model"]](rows, case)
    turns.wait({})
    while True:
        for _ in range(-(-len(rows.items) // case["batch"])):
            step()
        turns.done()
        turns.wait({"products alone": rank})


work(train)
