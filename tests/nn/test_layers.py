"""Layers with a run dimension: how they start, what they look up, which tables are trained row by row."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.kernels import cpu
from accord.nn import layers
from accord.nn.layers import Embedding, Linear, Streams, Trainable, initialise, pair_dot, unit
from helpers import CPU


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


def test_a_table_that_is_read_otherwise_is_left_to_dense_adam(monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed (accord[fast])")
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = table(10)

    class LooksUp(Reads):
        only_looks_up = True

    class Inherits(LooksUp):
        pass

    class TakesBack(LooksUp):
        only_looks_up = False

    assert layers.tables_by_rows(Reads(), 3) == layers.tables_by_rows(TakesBack(), 3) == []
    for looks_up in (LooksUp(), Inherits()):
        assert layers.tables_by_rows(looks_up, 3) == [looks_up.table]
    monkeypatch.setattr(layers, "WORTH_ROWS", 2)
    assert layers.tables_by_rows(looks_up, 5) == [looks_up.table]
    assert layers.tables_by_rows(looks_up, 6) == []


@pytest.mark.parametrize("compiled", [True, False])
def test_an_embedding_looks_up_each_runs_own_rows(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(cpu, "usable", lambda _tensor: False)
    made = Embedding(2, 3, 2)
    with torch.no_grad():
        made.weight.copy_(torch.arange(12.0).view(2, 3, 2))
    assert made(torch.tensor([[2, 2], [0, 1]])).tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]
    other = Embedding(2, 2, 2)
    nn.init.ones_(other.weight)
    ids = torch.tensor([[2, 0], [0, 1]]), torch.tensor([[0, 1], [1, 1]])
    assert pair_dot(made, other, *ids).tolist() == [[9, 1], [13, 17]]
    assert pair_dot(made, other, *ids, torch.tensor([[1.0, 0], [0, 2]])).tolist() == [[4, 0], [14, 18]]


def test_a_linear_layer_is_torchs_own_in_every_run():
    made = Linear(2, 3, 4, start="torch")
    initialise(made, (1, 2), "test")
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    for run, out in enumerate(made(x)):
        torch.testing.assert_close(out, nn.functional.linear(x[run], made.weight[run].T, made.bias[run]))
    assert float(made.weight.detach().abs().max()) <= 3**-0.5


@pytest.mark.parametrize(("start", "bound"), [("xavier", (6 / 70) ** 0.5), ("kaiming", (3 / 30) ** 0.5)])
def test_a_linear_layer_starts_within_its_bound_and_with_no_bias(start, bound):
    made = Linear(1, 30, 40, start=start)
    initialise(made, (1,), "test")
    assert 0.97 * bound < float(made.weight.detach().abs().max()) <= bound
    assert not made.bias.any()


def test_a_linear_layer_starts_with_a_given_deviation():
    made = Linear(1, 300, 40, start=0.1)
    initialise(made, (1,), "test")
    assert abs(float(made.weight.detach().std()) - 0.1) < 0.002
    assert not made.bias.any()


def test_vectors_of_length_one_and_their_gradient():
    vectors = torch.randn(2, 4, 3, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(unit(vectors), nn.functional.normalize(vectors, dim=-1))
    assert torch.autograd.gradcheck(unit, (vectors,))
    assert torch.equal(unit(torch.zeros(1, 3)), torch.zeros(1, 3)), "no history has no direction"


def test_a_run_starts_the_same_in_any_stack():
    stack, alone = (nn.Sequential(Embedding(runs, 4, 2), Linear(runs, 2, 1)) for runs in (2, 1))
    initialise(stack, (3, 5), "target")
    initialise(alone, (5,), "target")
    for mine, own in zip(stack.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine[1:], own)


def test_streams_draw_for_each_run_what_it_draws_alone():
    stack, alone = Streams((3, 5), "dropout"), Streams((5,), "dropout")
    first = stack.uniform([4, 6], CPU)
    assert torch.equal(first[4:], alone.uniform([6], CPU))
    assert not torch.equal(stack.uniform([4, 6], CPU), first)
    assert not list(stack.state_dict()), "their states are in the checkpoint, not among the weights"


def test_a_step_is_recordable_if_every_part_promises_it():
    class Promises(Trainable):
        recordable = True

        def __init__(self, *parts):
            super().__init__()
            self.parts = nn.ModuleList(parts)

    class Does(nn.Module):
        recordable = True

    class DoesNot(nn.Module):
        recordable = False

    assert layers.is_recordable(Promises(Does(), nn.Linear(1, 1)))
    assert not layers.is_recordable(Promises(Does(), DoesNot()))
    assert not layers.is_recordable(Trainable())
