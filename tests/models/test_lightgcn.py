"""LightGCN's propagation against torch_geometric."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.models.lightgcn import interaction_graph
from helpers import make_model, spread
from propagation import oracle, with_strangers


@pytest.mark.parametrize("seeds", [(1,), (1, 2, 3)])
def test_scores_and_their_gradient(seeds):
    """The whole model: dot products of propagated vectors."""
    train = with_strangers()
    model = make_model("lightgcn", train, seeds, dim=6)
    spread(model)
    nodes = torch.cat([model.user.weight, model.item.weight], 1).detach().requires_grad_()
    vectors = oracle(train, nodes, 3)
    rng = np.random.default_rng(0)
    users, items = (torch.from_numpy(rng.integers(0, n, (len(seeds), 40))) for n in (18, 12))
    runs = torch.arange(len(seeds))[:, None]
    expected = (vectors[runs, users] * vectors[runs, items + 18]).sum(-1)
    found = model(users, items)
    torch.testing.assert_close(found, expected)
    found.sigmoid().sum().backward()
    expected.sigmoid().sum().backward()
    torch.testing.assert_close(torch.cat([model.user.weight.grad, model.item.weight.grad], 1), nodes.grad)
    scores = model.eval().score_all(torch.arange(18))
    torch.testing.assert_close(scores, vectors[:, :18] @ vectors[:, 18:].mT)


def test_the_graph_is_symmetric_and_normalised():
    train = with_strangers()
    (dense,) = interaction_graph(train).times(torch.eye(30).unsqueeze(0))
    assert torch.equal(dense, dense.T)
    user, item = int(train.users[0]), int(train.items[0])
    assert dense[user, 18 + item].item() == pytest.approx((train.counts[user] * train.popularity()[item]) ** -0.5)
    assert int((dense != 0).sum()) == 2 * len(train.items)


def test_new_weights_give_new_scores():
    """Propagated vectors are kept between two changes of mode, and no longer."""
    model = make_model("lightgcn", with_strangers(), dim=6).eval()
    users = torch.arange(18)
    first = model.score_all(users).clone()
    spread(model)
    assert not torch.equal(model.train().eval().score_all(users), first)


def test_a_newcomer_is_what_the_items_of_the_history_send():
    """A node with a zero vector of its own: in layer l it is the weighted sum of its items' layer l - 1."""
    train = with_strangers()
    model = make_model("lightgcn", train, (1, 2), dim=6)
    spread(model)
    nodes = torch.cat([model.user.weight, model.item.weight], 1).detach()
    history = torch.tensor([0, 3, 7])
    weights = torch.from_numpy((3 * (train.popularity()[history] + 1.0)) ** -0.5).float()
    sums = 3 * oracle(train, nodes, 2)[:, 18:][:, history]  # of layers 0, 1 and 2
    vector = torch.einsum("rnd,n->rd", sums, weights) / 4  # the mean over its own layers 0 (zero), 1, 2 and 3
    expected = torch.einsum("rd,rid->ri", vector, oracle(train, nodes, 3)[:, 18:])
    torch.testing.assert_close(model.eval().fold_in(history), expected)
