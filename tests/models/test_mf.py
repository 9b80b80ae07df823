"""MF by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import assert_same_run, make_model, random_csr, small_data, spread, train_small

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


@pytest.mark.parametrize("scores", ["product", "cosine"])
@pytest.mark.parametrize("name", ["mf", "lightgcn", "cdae"])
def test_an_item_bias_is_added_however_a_model_is_asked(name, scores):
    made = [make_model(name, TRAIN, (1, 2), dim=5, scores=scores, item_bias=on).eval() for on in (True, False)]
    biased, without = made
    bias = biased.decoder_bias if name == "cdae" else biased.bias
    if scores == "cosine":
        assert not bias.weight.any(), "before it is learned"
    for model in made:
        spread(model)
    without.load_state_dict({key: biased.state_dict()[key] for key in without.state_dict()})
    users, history = torch.tensor([7, 2, 19]), torch.tensor([1, 4, 6])
    if name == "cdae" and scores == "product":  # which has a bias anyhow
        expected = without.score_all(users)
        torch.testing.assert_close(biased.score_all(users), expected)
    else:
        expected = without.score_all(users) + bias.weight.mT
        torch.testing.assert_close(biased.score_all(users), expected)
        if name != "mf":
            torch.testing.assert_close(biased.fold_in(history), without.fold_in(history) + bias.weight.squeeze(-1))
    pairs = torch.tensor([[3, 1, 4]] * 2)
    both = users.expand(2, -1)
    torch.testing.assert_close(biased(both, pairs), expected.gather(2, pairs.unsqueeze(2)).squeeze(2))
    of_users, of_items = biased.factors(both)
    torch.testing.assert_close(of_users @ of_items.mT, expected)


@pytest.mark.parametrize("name", ["mf", "lightgcn", "cdae"])
def test_softmax_learns_from_the_bias_what_is_popular(name):
    method, _ = train_small(name, "softmax", (3, 4), epochs=10, model__scores="cosine", model__item_bias=True)
    learned = method.target.decoder_bias if name == "cdae" else method.target.bias
    popular = small_data().training_csr().popularity()
    for bias in learned.weight.detach().squeeze(-1).numpy():
        assert np.corrcoef(bias, np.log1p(popular))[0, 1] > 0.7
    alone, _ = train_small(name, "softmax", (4,), epochs=10, model__scores="cosine", model__item_bias=True)
    assert_same_run(method.state_dict(), 1, alone.state_dict())
