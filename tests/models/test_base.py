"""How models start, and what their options are if none are given."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.models import MODELS, cost_of
from accord.models.base import Shape
from helpers import csr, make_model, random_csr

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)
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


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.solved])
def test_a_solved_model_costs_more_on_a_larger_log(name):
    small, large = Shape(100, 50, 1_000, 20_000, 40_000), Shape(10_000, 5_000, 100_000, 2_000_000, 4_000_000)
    low, high = (cost_of(name, {}, shape) for shape in (small, large))
    assert 0 < low.fit < high.fit
    assert 0 < low.rank < high.rank
    assert 0 < low.memory < high.memory


@pytest.mark.parametrize(
    ("name", "few", "many"), [("item-knn", {"k": 2}, {"k": 50}), ("user-knn", {"k": 2}, {"k": 50}),
                              ("ials", {"dim": 4}, {"dim": 32}), ("ials", {"iterations": 2}, {"iterations": 9})]
)  # fmt: skip
def test_options_that_make_work_cost(name, few, many):
    shape = Shape.of(BIG)
    assert sum(cost_of(name, few, shape)[:2]) < sum(cost_of(name, many, shape)[:2])


def test_the_shape_of_a_log():
    pairs = [(0, 0), (0, 1), (0, 2), (1, 0), (3, 0)]
    assert Shape.of(csr(4, 5, pairs)) == Shape(4, 5, 5, 9 + 1 + 1, 9 + 1 + 1)
    assert Shape.of(csr(4, 5, pairs[:2])) == Shape(4, 5, 2, 4, 2)
