"""Each model against an independent computation, and how it starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from accord.errors import InputError
from accord.models.cdae import CDAERules
from accord.models.ease import EASE
from accord.protocol import CORRECTED, PUBLISHED
from helpers import csr, make_model, random_csr, spread

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)


def dense(train=TRAIN):
    matrix = np.zeros((train.num_users, train.num_items))
    matrix[train.users, train.items] = 1
    return matrix


# --- closed form


@pytest.mark.parametrize("l2", [0.5, 20.0])
def test_ease_is_a_ridge_regression_of_each_item_on_the_others(l2):
    x = dense()
    expected = np.zeros((ITEMS, ITEMS))
    for item in range(ITEMS):
        others = np.delete(np.arange(ITEMS), item)  # its own weight is held at zero
        gram = x[:, others].T @ x[:, others] + l2 * np.eye(ITEMS - 1)
        expected[others, item] = np.linalg.solve(gram, x[:, others].T @ x[:, item])
    model = make_model("ease", TRAIN, l2=l2)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    users = torch.tensor([3, 0, 29])
    np.testing.assert_allclose(model.score_all(users)[0].numpy(), (x @ expected)[users], atol=1e-5)
    history = torch.tensor([1, 5, 6])
    np.testing.assert_allclose(model.fold_in(history)[0].numpy(), expected[[1, 5, 6]].sum(0), atol=1e-5)


def test_ease_refuses_more_items_than_it_can_invert(monkeypatch):
    monkeypatch.setattr(EASE, "most_items", ITEMS - 1)
    with pytest.raises(InputError, match="too many"):
        make_model("ease", TRAIN)


def test_popularity_counts_interactions():
    model = make_model("popularity", TRAIN)
    scores = model.score_all(torch.tensor([4, 4, 0]))
    assert scores.shape == (1, 3, ITEMS)
    np.testing.assert_array_equal(scores[0, 1].numpy(), dense().sum(0))
    np.testing.assert_array_equal(model.fold_in(torch.tensor([2]))[0].numpy(), dense().sum(0))


# --- CDAE


def cdae(protocol, seeds=(1,), **options):
    model = make_model("cdae", TRAIN, seeds, protocol.model_copy(update={"cdae_scoring_dropout": False}), **options)
    spread(model)
    return model


def dense_cdae(model, run, users, norms_of_batch):
    """Hidden vectors and logits of all items, with matrices: the input is x / sqrt(|x_u| |x_i|)."""
    state = {name: tensor[run].double().numpy() for name, tensor in model.state_dict().items()}
    x = dense()
    user_norms = np.linalg.norm(x, axis=1, keepdims=True)
    item_norms = np.linalg.norm(x[np.unique(users)] if norms_of_batch else x, axis=0, keepdims=True)
    scaled = x / np.sqrt(np.maximum(user_norms, 1e-9) * np.maximum(item_norms, 1e-9))
    hidden = np.tanh(scaled @ state["encoder.weight"] + state["encoder.bias"] + state["user.weight"])
    return hidden, hidden @ state["decoder.weight"].T + state["decoder_bias.weight"][:, 0]


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["batch norms", "train norms"])
def test_cdae_equals_a_dense_computation(protocol):
    model = cdae(protocol, seeds=(1, 2), dim=5).eval()
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 12, (2, 40)), rng.integers(0, ITEMS, (2, 40))
    users[1] += 10  # other users in the other run: batch norms are each run's own
    found = model(torch.from_numpy(users), torch.from_numpy(items)).detach().numpy()
    for run in range(2):
        _, logits = dense_cdae(model, run, users[run], protocol.own(CDAERules).cdae_item_norm == "batch")
        np.testing.assert_allclose(found[run], logits[users[run], items[run]], atol=1e-5)


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["batch norms", "train norms"])
def test_cdae_scores_all_items(protocol):
    model = cdae(protocol, seeds=(1, 2), dim=5).eval()
    users = np.array([7, 2, 19])
    found = model.score_all(torch.from_numpy(users)).detach().numpy()
    for run in range(2):
        _, logits = dense_cdae(model, run, users, protocol.own(CDAERules).cdae_item_norm == "batch")
        np.testing.assert_allclose(found[run], logits[users], atol=1e-5)


def test_cdae_folds_in_a_history_as_a_user_without_a_vector():
    model = cdae(CORRECTED, seeds=(1, 2), dim=5).eval()
    user = 4
    with torch.no_grad():
        model.user.weight[:, user] = 0
    history = torch.from_numpy(TRAIN.items[TRAIN.ptr[user] : TRAIN.ptr[user + 1]])
    torch.testing.assert_close(model.fold_in(history), model.score_all(torch.tensor([user]))[:, 0])


def test_cdae_drops_the_share_it_says_and_keeps_the_mean():
    model = cdae(CORRECTED, seeds=(1, 2), dropout=0.3)
    kept = model._kept([50_000, 30_000], torch.device("cpu"))
    assert kept.shape == (80_000,)
    assert kept.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(kept.mean()) == pytest.approx(1, abs=0.02)


def encoded(model, seeds):
    """Hidden vectors of all users, twice: [2, R, U, dim]."""
    runs = torch.arange(len(seeds)).repeat_interleave(USERS)
    users = torch.arange(USERS).repeat(len(seeds))
    return torch.stack([model.encode(runs, users).view(len(seeds), USERS, -1) for _ in range(2)])


def test_each_run_of_cdae_has_its_own_dropout():
    together = encoded(make_model("cdae", TRAIN, (1, 2), CORRECTED).train(), (1, 2))
    for run, seed in enumerate((1, 2)):
        alone = encoded(make_model("cdae", TRAIN, (seed,), CORRECTED).train(), (seed,))
        torch.testing.assert_close(together[:, run], alone[:, 0])
    assert not torch.equal(together[0], together[1]), "and draws anew each time"


def test_cdae_scores_with_dropout_only_where_the_protocol_says():
    users = torch.arange(USERS)
    for protocol, random in ((PUBLISHED, True), (CORRECTED, False)):
        model = make_model("cdae", TRAIN, (1,), protocol).eval()
        assert torch.equal(model.score_all(users), model.score_all(users)) != random


def test_dropped_history_changes_only_whom_it_belongs_to():
    """A user with no history has nothing to drop."""
    train = csr(3, 4, [(0, 0), (0, 1), (1, 2)])
    model = make_model("cdae", train, (1,), CORRECTED, dropout=0.9).train()
    users = torch.tensor([2])
    assert torch.equal(model.score_all(users), model.score_all(users))


# --- factor models


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


@pytest.mark.parametrize("name", ["mf", "gmf"])
def test_factor_models_by_hand(name):
    model = make_model(name, TRAIN, (1, 2))
    spread(model)
    users, items = torch.tensor([[0, 5], [7, 7]]), torch.tensor([[3, 3], [1, 2]])
    found = model(users, items)
    for run in range(2):
        product = model.user.weight[run, users[run]] * model.item.weight[run, items[run]]
        expected = product.sum(1) if name == "mf" else (product @ model.out.weight[run] + model.out.bias[run])[:, 0]
        torch.testing.assert_close(found[run], expected)


# --- how models start

BIG = random_csr(900, 700, 0.01)
NORMAL = {  # embeddings: N(0, std)
    "mf": {"user": 0.01, "item": 0.01},
    "gmf": {"user": 0.01, "item": 0.01},
    "neumf": {"user": 0.01, "item": 0.01, "wide_user": 0.01, "wide_item": 0.01},
    "lightgcn": {"user": 0.1, "item": 0.1},
    "cdae": {"user": 1.0},  # torch's default
}


@pytest.mark.parametrize("name", NORMAL)
def test_embeddings_start_normal(name):
    model = make_model(name, BIG, (1, 2))
    for layer, std in NORMAL[name].items():
        weight = getattr(model, layer).weight.detach()
        assert not torch.equal(weight[0], weight[1]), "each run has its own start"
        for run in weight:
            assert float(run.std()) == pytest.approx(std, rel=0.03)
            assert abs(float(run.mean())) < 0.03 * std
            assert float(run.abs().max()) > 3 * std, "normal, not uniform"


def torch_bound(num_in, num_out, start):
    """The largest weight that torch's own initialisation gives, by drawing many."""
    layer = nn.Linear(num_in, num_out)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if start == "xavier":
            nn.init.xavier_uniform_(layer.weight)
        elif start == "kaiming":
            layer = nn.Linear(num_in, 1000)
            nn.init.kaiming_uniform_(layer.weight, a=1, nonlinearity="leaky_relu")
        else:
            layer.reset_parameters()
    return float(layer.weight.detach().abs().max())


def assert_uniform(weight, bound, few=False):
    assert float(weight.abs().max()) <= bound * 1.02
    assert float(weight.abs().max()) > bound * (0.7 if few else 0.97)
    if not few:
        assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.05)


def test_linear_layers_start_as_torch_would():
    model = make_model("neumf", BIG, (1, 2))
    for layer in model.layers:
        for run in layer.weight.detach():
            assert_uniform(run, torch_bound(*run.shape, "xavier"))
        assert not layer.bias.any()
    for other in (model, make_model("gmf", BIG, (1, 2))):
        for run in other.out.weight.detach():
            assert_uniform(run, torch_bound(*run.shape, "kaiming"), few=True)
        assert not other.out.bias.any()


def test_cdae_starts_with_torchs_defaults():
    model = make_model("cdae", BIG, (1, 2))
    into, out = 700**-0.5, 32**-0.5
    assert torch_bound(700, 32, "torch") == pytest.approx(into, rel=0.01)
    assert torch_bound(32, 700, "torch") == pytest.approx(out, rel=0.01)
    for run in range(2):
        assert_uniform(model.encoder.weight[run].detach(), into)
        assert_uniform(model.encoder.bias[run].detach(), into, few=True)
        assert_uniform(model.decoder.weight[run].detach(), out)
        assert_uniform(model.decoder_bias.weight[run].detach(), out, few=True)


def test_defaults_are_the_papers():
    shapes = {name: make_model(name, TRAIN) for name in ("mf", "gmf", "cdae", "lightgcn")}
    assert shapes["mf"].user.weight.shape[-1] == shapes["gmf"].user.weight.shape[-1] == 32
    assert shapes["cdae"].encoder.weight.shape == (1, ITEMS, 32)
    assert shapes["cdae"].config.dropout == 0.5
    assert shapes["lightgcn"].user.weight.shape[-1] == 64
    assert shapes["lightgcn"].config.num_layers == 3
