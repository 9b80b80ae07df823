"""NeuMF against torch's own layers."""

from __future__ import annotations

import torch
from torch import nn

from helpers import make_model, random_csr, spread

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)


def test_neumf_scores_all_items_as_it_scores_pairs():
    model = make_model("neumf", TRAIN, (1, 2), dim=4)
    spread(model)
    users = torch.arange(USERS)
    scores = model.score_all(users)
    pairs = torch.cartesian_prod(users, torch.arange(ITEMS)).T
    expected = model(*(part.expand(2, -1) for part in pairs)).view(2, USERS, ITEMS)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)


def test_neumf_is_as_the_paper_has_it():
    model = make_model("neumf", TRAIN)
    assert model.wide_user.weight.shape[-1] == model.wide_item.weight.shape[-1] == 128
    assert [tuple(layer.weight.shape[1:]) for layer in model.layers] == [(256, 128), (128, 64), (64, 32)]
    assert model.out.weight.shape == (1, 64, 1)


def test_neumf_against_torchs_own_layers():
    model = make_model("neumf", TRAIN, (1, 2), dim=4, num_layers=2)
    spread(model)
    users, items = torch.arange(20) % USERS, torch.arange(20) % ITEMS
    found = model(users.expand(2, -1), items.expand(2, -1))
    for run in range(2):
        x = torch.cat([model.wide_user.weight[run, users], model.wide_item.weight[run, items]], 1)
        for layer in model.layers:
            x = nn.functional.linear(x, layer.weight[run].T, layer.bias[run]).relu()
        x = torch.cat([model.user.weight[run, users] * model.item.weight[run, items], x], 1)
        expected = nn.functional.linear(x, model.out.weight[run].T, model.out.bias[run]).squeeze(1)
        torch.testing.assert_close(found[run], expected)
