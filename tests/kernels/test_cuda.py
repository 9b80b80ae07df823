"""What only a CUDA device can show: recorded steps do what steps do, and the fused loss is the loss."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.data.interactions import Interactions
from accord.data.sampling import Batch
from accord.kernels import agreement, cuda
from accord.kernels.lookups import row_dot
from accord.nn import adam
from accord.nn.layers import Embedding, pair_dot
from accord.training import step
from accord.training.stack import train_stack
from accord.training.trainer import Trainer
from accord_lab.methods import ALL_METHODS
from helpers import assert_same_training, make_method, plan_small, random_csr, small_data, spread

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
CUDA = torch.device("cuda")
MODELS = ("mf", "gmf", "neumf", "lightgcn", "cdae")


def trained(run, records, monkeypatch, data=None):
    """A method trained with recorded steps or without, and how many graphs there were."""
    graphs, train = [], Trainer.train

    def counting(trainer):
        trainer.steps.records &= records
        state = train(trainer)
        graphs.append(len(trainer.steps.graphs))
        return state

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train", counting)
        method, states = train_stack(data or small_data(), run, CUDA)
    return method, states, graphs


@pytest.mark.parametrize("protocol", ["corrected", "published"])
@pytest.mark.parametrize("method", [name for name in ALL_METHODS if name != "pld"])  # which counts on the host
@pytest.mark.parametrize("model", MODELS)
def test_recorded_steps_do_what_steps_do(model, method, protocol, monkeypatch):
    run = plan_small(model, method, (3, 5), protocol=protocol, epochs=6)  # in the last, nothing new is recorded
    eager, expected, none = trained(run, False, monkeypatch)
    recorded, states, graphs = trained(run, True, monkeypatch)
    assert sum(none) == 0
    assert all(graphs)
    assert_same_training((recorded, states), (eager, expected), losses=(2e-3, 1e-4), weights=(2e-2, 5e-3))


@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_weights_reach_recorded_steps(model, monkeypatch):
    """Every batch brings weights of its own into the recording: 1 changes nothing, others what eager steps change."""
    data = small_data()
    run = plan_small(model, "deca", (3, 5), epochs=4)
    plain, *_ = trained(run, True, monkeypatch)

    def weighed(weight, records):
        values = np.full(len(data.train), 1.0) if weight is None else weight
        train = Interactions.of(data.train.users, data.train.items, weight=values)
        return trained(run, records, monkeypatch, replace(data, train=train))[0]

    drawn = np.random.default_rng(0).uniform(0, 3, len(data.train))
    ones, recorded, eager = weighed(None, True), weighed(drawn, True), weighed(drawn, False)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ones.state_dict()[name], tensor, rtol=2e-2, atol=5e-3)
        torch.testing.assert_close(recorded.state_dict()[name], eager.state_dict()[name], rtol=2e-2, atol=5e-3)
    moved = [(recorded.state_dict()[name] - tensor).abs().max() for name, tensor in plain.state_dict().items()]
    assert max(moved) > 0.02


@pytest.mark.parametrize("dp", [True, False])
@pytest.mark.parametrize("scale", [0.1, 3.0, 12.0])
def test_the_fused_loss_is_the_loss(dp, scale):
    generator = torch.Generator("cuda").manual_seed(1)
    logits = [scale * torch.randn(3, 1001, generator=generator, device=CUDA) for _ in range(3)]
    alpha, c = torch.tensor([[0.0], [0.3], [1.0]], device=CUDA), torch.tensor([[1.0], [10.0], [1000.0]], device=CUDA)
    weights = torch.rand(3, 1001, generator=generator, device=CUDA)
    exact = [x.double().requires_grad_() for x in logits]
    expected = agreement.reference_terms(*exact, alpha.double(), c.double(), 400, dp)
    single = [x.clone().requires_grad_() for x in logits]
    found = cuda.agreement_terms(*single, alpha, c, 400, dp, agreement.GUARD)
    plain = [x.clone().requires_grad_() for x in logits]
    formula = agreement.reference_terms(*plain, alpha, c, 400, dp)
    for terms in (expected, found, formula):
        (terms * weights).sum().backward()
    pairs = [
        (found, formula, expected),
        *((s.grad, p.grad, e.grad) for s, p, e in zip(single, plain, exact, strict=True)),
    ]
    for ours, theirs, truth in pairs:
        error, usual = ((x.double() - truth).norm() / truth.norm() for x in (ours, theirs))
        assert error < max(2 * usual, 1e-5)


def test_what_cannot_be_recorded_is_trained_all_the_same(monkeypatch, caplog):
    def refuse(*_arguments, **_options):
        raise RuntimeError("this cannot be recorded")

    monkeypatch.setattr(step.torch.cuda, "graph", refuse)
    run = plan_small("gmf", "deca", (3, 5), epochs=3)
    with caplog.at_level(logging.WARNING, logger="accord"):
        _, states, graphs = trained(run, True, monkeypatch)
    assert graphs == [0]
    assert states[0].epoch == 3
    assert "cannot be recorded" in caplog.text


def as_if_without_kernels(monkeypatch):
    monkeypatch.setattr(cuda, "triton", None)


@pytest.mark.parametrize("dim", [1, 20, 32])
@pytest.mark.parametrize("weighted", [False, True])
def test_dot_products_of_rows_and_their_gradient(dim, weighted, monkeypatch):
    generator = torch.Generator("cuda").manual_seed(2)
    tables = [Embedding(3, rows, dim, std=1.0).to(CUDA) for rows in (50, 40)]
    for table in tables:
        torch.nn.init.normal_(table.weight, generator=generator)
    weight = torch.randn(3, dim, device=CUDA, generator=generator, requires_grad=True) if weighted else None
    ids = [torch.randint(0, rows, (3, 777), device=CUDA, generator=generator) for rows in (50, 40)]
    slopes = torch.randn(3, 777, device=CUDA, generator=generator)
    wanted = [tables[0].weight, tables[1].weight, *([] if weight is None else [weight])]
    found = pair_dot(*tables, *ids, weight)
    gradients = torch.autograd.grad((found * slopes).sum(), wanted)
    as_if_without_kernels(monkeypatch)
    expected = pair_dot(*tables, *ids, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad((expected * slopes).sum(), wanted), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_dot_products_of_rows_of_one_table(monkeypatch):
    nodes = torch.randn(3, 50, 20, device=CUDA, requires_grad=True)
    ids = torch.randint(0, 50, (2, 3, 777), device=CUDA)
    slopes = torch.randn(3, 777, device=CUDA)
    found = row_dot(nodes, nodes, *ids)
    (gradient,) = torch.autograd.grad((found * slopes).sum(), nodes)
    as_if_without_kernels(monkeypatch)
    expected = row_dot(nodes, nodes, *ids)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, *torch.autograd.grad((expected * slopes).sum(), nodes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 33, 128])
def test_lookup_and_its_gradient(dim, monkeypatch):
    table = Embedding(3, 50, dim, std=1.0).to(CUDA)
    torch.nn.init.normal_(table.weight)
    ids = torch.randint(0, 50, (3, 777), device=CUDA)
    slopes = torch.randn(3, 777, dim, device=CUDA)
    found = table(ids)
    (gradient,) = torch.autograd.grad((found * slopes).sum(), table.weight)
    as_if_without_kernels(monkeypatch)
    expected = table(ids)
    assert torch.equal(found, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad((expected * slopes).sum(), table.weight)[0])


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_of_large_tables_is_adam(decoupled, monkeypatch):
    monkeypatch.setattr(adam, "WORTH_KERNEL", 1)
    start = torch.randn(2, 300, 7, device=CUDA)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    decay = torch.tensor([0.0, 0.3], device=CUDA)
    mine, usual = (adam.Adam([one], 0.01, decoupled=decoupled) for one in (ours, theirs))
    for _ in range(300):
        gradient = torch.randn_like(start)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step({ours: decay})
        with monkeypatch.context() as patch:
            patch.setattr(adam, "WORTH_KERNEL", 2**30)
            usual.step({theirs: decay})
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["normal", "deca"])
@pytest.mark.parametrize("model", MODELS)
def test_the_same_loss_and_gradients_as_on_the_cpu(model, method):
    train = random_csr(30, 20, 0.3)
    users, items = torch.randint(0, 30, (3, 64)), torch.randint(0, 20, (3, 64))
    found = []
    for device in ("cpu", "cuda"):
        made = make_method(method, [{}] * 3, train, model).to(device).eval()
        spread(made)
        made.begin_step(1)
        losses = made.loss(Batch(users.to(device), items.to(device), 32))
        losses.sum().backward()
        found.append((losses.detach().cpu(), [p.grad.cpu() for p in made.parameters() if p.grad is not None]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-4)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


LENGTHS = (0, 3, cuda.LONGEST, 1, cuda.LONGEST + 1, 4 * cuda.LONGEST + 7, cuda.SHORT + 1, cuda.SHORT, 0)


@pytest.mark.parametrize("dim", [5, 64, 200])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_sums_over_neighbours(dim, added, many, monkeypatch):
    if many:
        monkeypatch.setattr(cuda, "FEW", len(LENGTHS) - 1)
    runs, rows = 2, len(LENGTHS)
    ptr = torch.tensor([0, *LENGTHS], device="cuda").cumsum(0)
    generator = torch.Generator("cuda").manual_seed(0)
    items = torch.randint(0, rows, (int(ptr[-1]),), generator=generator, device="cuda")
    table, more = torch.randn(2, runs, rows, dim, generator=generator, device="cuda")
    factors = torch.rand(len(items), generator=generator, device="cuda")
    sums = cuda.neighbour_sums(table, items, factors, cuda.lists_of(ptr), more if added else None, 3)
    spans = [slice(*span) for span in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]
    expected = torch.stack(
        [torch.stack([(of_run[items[span]] * factors[span, None]).sum(0) for span in spans]) for of_run in table]
    )
    torch.testing.assert_close(sums, (expected + more * added) / 3, rtol=1e-4, atol=1e-4)
