"""MF by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import assert_same_run, make_model, random_csr, spread, train_small

TRAIN = random_csr(30, 14, 0.35)


def test_scores_by_hand():
    model = make_model("mf", TRAIN, (1, 2))
    spread(model)
    users, items = torch.tensor([[0, 5], [7, 7]]), torch.tensor([[3, 3], [1, 2]])
    found = model(users, items)
    for run in range(2):
        product = model.user.weight[run, users[run]] * model.item.weight[run, items[run]]
        expected = product.sum(1)
        torch.testing.assert_close(found[run], expected)


def unit_rows(matrix):
    return matrix / np.maximum(1e-9, np.linalg.norm(matrix, axis=-1, keepdims=True))


@pytest.mark.parametrize("name", ["mf", "lightgcn", "cdae"])
def test_vectors_start_near_the_singular_vectors_of_the_log(name):
    x = np.zeros((TRAIN.num_users, TRAIN.num_items))
    x[TRAIN.users, TRAIN.items] = 1
    left, sizes, right = np.linalg.svd(x / np.sqrt(np.maximum(1, x.sum(1, keepdims=True))) / np.sqrt(x.sum(0)))
    model = make_model(name, TRAIN, (1, 2), dim=3, start="factors")
    tables = {"cdae": ["encoder", "decoder"]}.get(name, ["item", "user"])
    before = {table: getattr(model, table).weight.detach().clone() for table in tables}
    model.begin(TRAIN)
    for table in tables:
        wanted = (left if table == "user" else right.T)[:, :3] * sizes[:3] ** 0.5
        after = getattr(model, table).weight.detach()
        torch.testing.assert_close(after.norm(dim=-1), before[table].norm(dim=-1))
        for run in range(2):
            some = np.linalg.norm(wanted, axis=1) > 1e-6
            rows, expected = unit_rows(after[run].numpy())[some], unit_rows(wanted)[some]
            between, expected = rows @ rows.T, expected @ expected.T  # whatever the signs
            assert np.abs(between - expected).mean() < 0.12
        assert not torch.equal(after[0], after[1]), "a tenth of a start is each run's"


def test_rows_without_a_pair_stay_where_they_are():
    train = random_csr(30, 14, 0.35)
    kept = train.items != 4
    without = type(train).of(train.users[kept], train.items[kept], 30, 14)
    model = make_model("mf", without, (1,), dim=20, start="factors")  # wider than there are factors
    start = model.item.weight.detach().clone()
    model.begin(without)
    torch.testing.assert_close(model.item.weight[0, 4], start[0, 4])
    assert not torch.allclose(model.item.weight[0, 3], start[0, 3])


@pytest.mark.parametrize("model", ["mf", "cdae"])
def test_a_run_that_starts_from_factors_is_trained_in_a_stack_as_alone(model):
    options = {"model__scores": "cosine", "model__start": "factors", "train__l2": 0.0}
    stack, _ = train_small(model, "softmax", (3, 4), **options)
    alone, _ = train_small(model, "softmax", (4,), **options)
    assert_same_run(stack.state_dict(), 1, alone.state_dict())
