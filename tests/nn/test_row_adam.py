"""Row by row or compiled, training on the CPU is what plain torch does."""

from __future__ import annotations

import pytest
import torch

from accord.kernels import cpu
from accord.nn import layers, row_adam
from accord.nn.adam import Adam
from accord.nn.layers import Embedding
from accord.nn.row_adam import RowsAtOnce, RowsStepByStep
from accord.training.stack import train_stack
from helpers import CPU, assert_same_training, assert_same_weights, plan_small, small_data

pytest.importorskip("numba", reason="numba is not installed (accord[fast])")


def plain(monkeypatch):
    monkeypatch.setattr(cpu, "usable", lambda _tensor: False)


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("decay", [[0.0, 0.0], [0.03, 2.0]])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("counted", [2**17, 70])
def test_rows_end_where_dense_adam_ends(counted, decay, gaps, decoupled, monkeypatch):
    """Five hundred steps; with gaps, most rows are left alone for hundreds of them, and one for ever."""
    monkeypatch.setattr(row_adam, "COUNTED", counted)
    rows, generator = 40, torch.Generator().manual_seed(1)
    mine, usual = table(rows), table(rows)
    factors = torch.tensor(decay)
    kind = RowsAtOnce if decoupled else RowsStepByStep
    optimizer = Adam([mine.weight], 0.01, {mine: kind}, decoupled)
    dense = Adam([usual.weight], 0.01, decoupled=decoupled)
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


@pytest.mark.parametrize("optimiser", ["adam", "decoupled"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["normal", "deca", "deca-p"])
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_training_by_rows_is_training(model, method, threads, optimiser, monkeypatch):
    run = plan_small(model, method, (3, 5), epochs=4, protocol__optimiser=optimiser)
    before = torch.get_num_threads()
    with monkeypatch.context() as patch:
        plain(patch)
        expected = train_stack(small_data(), run, CPU)
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)
    torch.set_num_threads(threads)
    try:
        found = train_stack(small_data(), run, CPU)
    finally:
        torch.set_num_threads(before)
    assert_same_training(found, expected, losses=(1e-3, 1e-4), weights=(1e-2, 2e-3))
    assert all(module.rows is None for module in found[0].modules() if isinstance(module, Embedding))


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
