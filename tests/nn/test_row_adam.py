"""Row by row or compiled, training is what torch does with all rows at every step."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from accord.kernels import cpu
from accord.nn import layers, row_adam
from accord.nn.adam import Adam
from accord.nn.layers import Embedding, pair_dot
from accord.training.stack import train_stack
from helpers import CPU, assert_same_training, assert_same_weights, plan_small, small_data

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
needs_numba = pytest.mark.skipif(not cpu.compiled(), reason="numba is not installed (accord[fast])")
CUDA = torch.device("cuda")
RUNS, ROWS, DIM = 2, 40, 5


def without_kernels(monkeypatch):
    monkeypatch.setattr(cpu, "usable", lambda _tensor: False)


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


@needs_numba
@pytest.mark.parametrize("decay", [[0.0, 0.0], [0.03, 2.0]])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("counted", [2**17, 70])
def test_rows_end_where_updating_all_rows_ends(counted, decay, gaps, monkeypatch):
    """Five hundred steps; with gaps, most rows are left alone for hundreds of them, and one for ever."""
    monkeypatch.setattr(row_adam, "COUNTED", counted)
    rows, generator = 40, torch.Generator().manual_seed(1)
    mine, usual = table(rows), table(rows)
    factors = torch.tensor(decay)
    optimizer = Adam([mine.weight], 0.01, [mine], decoupled=True)
    dense = Adam([usual.weight], 0.01, decoupled=True)
    optimizer.start()
    for step in range(500):
        if gaps:
            ids = torch.stack([torch.tensor([step // 50, 10 + step % 29, 3]) for _ in range(2)])
        else:
            ids = torch.randint(0, rows, (2, 30), generator=generator)
        slopes = torch.randn(*ids.shape, 5, generator=generator)
        for one in (mine, usual):
            one.zero_grad(set_to_none=True)
            looked_up = one(ids) if one is mine else one.weight[torch.arange(2)[:, None], ids]
            (looked_up * slopes).sum().backward()
        optimizer.step({mine.weight: factors})
        optimizer.taken()
        dense.step({usual.weight: factors})
    assert mine.rows.last.min() < 500 or not gaps
    optimizer.release()
    torch.testing.assert_close(mine.weight, usual.weight, rtol=1e-4, atol=1e-4)
    state, other = optimizer.state[mine.weight], dense.state[usual.weight]
    assert state["step"] == other["step"] == 500
    for name in optimizer.remembers[1:]:
        torch.testing.assert_close(state[name], other[name], rtol=1e-3, atol=1e-6)


@cache
def trained_without_kernels(model, method, optimiser):
    run = plan_small(model, method, (3, 5), epochs=4, protocol__optimiser=optimiser)
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        return train_stack(small_data(), run, CPU)


@needs_numba
@pytest.mark.parametrize("optimiser", ["adam", "decoupled"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["normal", "deca", "deca-p"])
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_training_by_rows_is_training(model, method, threads, optimiser, monkeypatch):
    run = plan_small(model, method, (3, 5), epochs=4, protocol__optimiser=optimiser)
    before, expected = torch.get_num_threads(), trained_without_kernels(model, method, optimiser)
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)
    torch.set_num_threads(threads)
    try:
        found = train_stack(small_data(), run, CPU)
    finally:
        torch.set_num_threads(before)
    assert_same_training(found, expected, losses=(1e-3, 1e-4), weights=(1e-2, 2e-3))
    assert all(module.rows is None for module in found[0].modules() if isinstance(module, Embedding))


@needs_numba
@pytest.mark.parametrize("optimiser", ["adam", "decoupled"])
@pytest.mark.parametrize("worth", [0, 2])
def test_resumed_by_rows_ends_at_the_very_same_weights(worth, optimiser, tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "WORTH_ROWS", worth)
    options = {"train__checkpoint_seconds": 0.0, "protocol__optimiser": optimiser}
    whole, _ = train_stack(small_data(), plan_small("gmf", "deca", (3, 5), epochs=4, **options), CPU)

    class Interrupted(Exception):
        pass

    def stop(progress):
        if progress.epoch == 3:
            raise Interrupted

    run = plan_small("gmf", "deca", (3, 5), epochs=4, **options)
    with pytest.raises(Interrupted):
        train_stack(small_data(), run, CPU, folder=tmp_path, watch=stop)
    resumed, _ = train_stack(small_data(), run, CPU, folder=tmp_path, resume=True)
    assert_same_weights(resumed.state_dict(), whole.state_dict())


def tables():
    made = Embedding(RUNS, ROWS, DIM), Embedding(RUNS, 7, DIM)
    for seed, table in enumerate(made):
        with torch.no_grad():
            table.weight.normal_(generator=torch.Generator().manual_seed(seed))
    return [table.to(CUDA) for table in made]


@needs_cuda
@pytest.mark.parametrize("decay", [[0.0, 0.0], [0.03, 2.0]])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("counted", [2**17, 70])
def test_rows_on_cuda_end_where_those_of_a_whole_gradient_end(counted, gaps, decay, monkeypatch):
    """Looked up, and multiplied with those of a table that is updated as a whole; rows are looked up twice at once, and
    with gaps most are left alone for hundreds of steps. A step in which nothing is looked up changes nothing."""
    monkeypatch.setattr(row_adam, "COUNTED", counted)
    (mine, other), (usual, its_other) = tables(), tables()
    factors, generator = torch.tensor(decay, device=CUDA), torch.Generator().manual_seed(1)
    optimizer = Adam([mine.weight, other.weight], 0.01, [mine], decoupled=True)
    dense = Adam([usual.weight, its_other.weight], 0.01, decoupled=True)
    optimizer.start()
    runs = torch.arange(RUNS, device=CUDA)[:, None]
    for step in range(500):
        ids = torch.randint(0, ROWS, (RUNS, 30), generator=generator)
        if gaps:
            ids = torch.tensor([step // 50, 10 + step % 29, 3, 3]).repeat(RUNS, 1)
        items = torch.randint(0, 7, ids.shape, generator=generator).to(CUDA)
        slopes, of_product = (torch.randn(*ids.shape, n, generator=generator).to(CUDA) for n in (DIM, 1))
        ids = ids.to(CUDA)
        for adam in (optimizer, dense):
            adam.zero_grad()
        ((mine(ids) * slopes).sum() + (pair_dot(mine, other, ids, items) * of_product[..., 0]).sum()).backward()
        rows = usual.weight[runs, ids]
        product = (rows * its_other.weight[runs, items]).sum(-1)
        ((rows * slopes).sum() + (product * of_product[..., 0]).sum()).backward()
        optimizer.step({mine.weight: factors})
        optimizer.taken()
        dense.step({usual.weight: factors})
    assert mine.weight.grad is None
    assert not mine.rows.gradient.any()
    assert mine.rows.last.min() < 500 or not gaps
    optimizer.zero_grad()
    optimizer.step({mine.weight: factors})
    optimizer.release()
    for table, expected in ((mine, usual), (other, its_other)):
        torch.testing.assert_close(table.weight, expected.weight, rtol=1e-4, atol=1e-4)
    state, expected = optimizer.state[mine.weight], dense.state[usual.weight]
    assert state["step"] == expected["step"] == 500
    for name in optimizer.remembers[1:]:
        torch.testing.assert_close(state[name], expected[name], rtol=1e-3, atol=1e-6)


@needs_cuda
@pytest.mark.parametrize("method", ["normal", "deca", "deca-p", "pld"])
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf"])
def test_training_by_rows_on_cuda_is_training(model, method, monkeypatch):
    """Recorded, and where that is not possible (PLD) step by step."""
    run = plan_small(model, method, (3, 5), epochs=4, protocol__optimiser="decoupled")
    made, tables_by_rows = [], layers.tables_by_rows
    expected = train_stack(small_data(), run, CUDA)
    monkeypatch.setattr(layers, "WORTH_ROWS_ON_CUDA", 0)
    monkeypatch.setattr(
        "accord.training.trainer.tables_by_rows", lambda *given: made.append(tables_by_rows(*given)) or made[-1]
    )
    found = train_stack(small_data(), run, CUDA)
    assert all(made)
    assert_same_training(found, expected, losses=(2e-3, 1e-4), weights=(2e-2, 5e-3))
    assert all(module.rows is None for module in found[0].modules() if isinstance(module, Embedding))
