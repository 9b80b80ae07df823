"""GMF by hand."""

from __future__ import annotations

import torch

from helpers import make_model, random_csr, spread

TRAIN = random_csr(30, 14, 0.35)


def test_scores_by_hand():
    model = make_model("gmf", TRAIN, (1, 2))
    spread(model)
    users, items = torch.tensor([[0, 5], [7, 7]]), torch.tensor([[3, 3], [1, 2]])
    found = model(users, items)
    for run in range(2):
        product = model.user.weight[run, users[run]] * model.item.weight[run, items[run]]
        expected = (product @ model.out.weight[run] + model.out.bias[run])[:, 0]
        torch.testing.assert_close(found[run], expected)
