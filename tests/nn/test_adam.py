"""Adam with the penalty as a gradient term, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.nn.adam import Adam
from accord.nn.layers import Embedding


def test_the_penalty_of_each_run_is_part_of_its_gradient():
    start, decay = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0.0, 0.7])
    mine, usual = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizer, other = Adam([mine], 0.01), torch.optim.Adam([usual], 0.01)
    for step in range(20):
        gradient = torch.sin(start + step)
        mine.grad, usual.grad = gradient.clone(), gradient + decay.view(2, 1, 1) * usual.detach()
        optimizer.step({mine: decay})
        other.step()
    torch.testing.assert_close(mine, usual)


def plain_decoupled(weight, spread, gradient, decay, step, lr):
    """A step as `nn/adam.py` states it."""
    spread = 0.999 * spread + 0.001 * gradient**2
    divisor = (spread / (1 - 0.999**step)).sqrt().clamp(min=1e-8)
    return (-lr * decay.view(-1, 1, 1) / divisor).exp() * weight - lr * gradient / divisor, spread


def test_decoupled_there_is_no_momentum_and_weights_decay_apart():
    start, decay = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0.0, 0.7])
    mine, weight, spread = nn.Parameter(start.clone()), start.double(), torch.zeros_like(start)
    optimizer = Adam([mine], 0.01, decoupled=True)
    for step in range(1, 50):
        gradient = torch.sin(start + step)
        mine.grad = gradient.clone()
        optimizer.step({mine: decay})
        weight, spread = plain_decoupled(weight, spread, gradient, decay, step, 0.01)
    torch.testing.assert_close(mine.double(), weight, rtol=1e-5, atol=1e-6)


def test_what_never_had_a_gradient_decays_to_zero_and_without_a_penalty_stays():
    weight = nn.Parameter(torch.ones(2, 2))
    weight.grad = torch.zeros(2, 2)
    Adam([weight], 0.5, decoupled=True).step({weight: torch.tensor([3.0, 0.0])})
    assert weight.tolist() == [[0, 0], [1, 1]]


def test_the_first_step_is_the_learning_rate_against_the_sign():
    weight = nn.Parameter(torch.tensor([[1.0, -2.0, 3.0]]))
    weight.grad = torch.tensor([[5.0, -0.01, 0.0]])
    Adam([weight], 0.1).step({})
    torch.testing.assert_close(weight.detach(), torch.tensor([[0.9, -1.9, 3.0]]), rtol=0, atol=1e-5)


def test_what_has_no_gradient_stays_though_it_has_a_penalty():
    """A network that a phase does not train is not shrunk by it either."""
    weight, other = nn.Parameter(torch.ones(1, 2)), nn.Parameter(torch.ones(1, 2))
    weight.grad = torch.ones(1, 2)
    optimizer = Adam([weight, other], 0.1)
    optimizer.step({weight: torch.ones(1), other: torch.ones(1)})
    assert torch.equal(other.detach(), torch.ones(1, 2))
    assert not optimizer.state[other]


def test_tables_by_rows_have_dense_state_between_start_and_release():
    pytest.importorskip("numba", reason="numba is not installed (accord[fast])")
    table = Embedding(1, 6, 2)
    nn.init.ones_(table.weight)
    optimizer = Adam([table.weight], 0.1, [table], decoupled=True)
    optimizer.start()
    for _ in range(3):
        optimizer.zero_grad()
        table(torch.tensor([[4]])).sum().backward()
        optimizer.step({})
    optimizer.release()
    assert table.rows is None
    state = optimizer.state[table.weight]
    assert int(state["step"]) == 3
    assert set(state) == set(optimizer.remembers), "decoupled, there is no mean to hold"
    assert state["exp_avg_sq"].shape == table.weight.shape
    weight = table.weight.detach()[0, :, 0].tolist()
    assert weight == pytest.approx([1, 1, 1, 1, 0.7, 1], abs=1e-5), "a constant gradient moves by the rate in each step"
