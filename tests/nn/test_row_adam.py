"""Row by row or compiled, training on the CPU is what plain torch does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.kernels import cpu
from accord.nn import layers
from accord.nn.adam import Adam
from accord.nn.layers import Embedding, pair_dot
from accord.training.stack import train_stack
from helpers import CPU, assert_same_weights, plan_small, small_data

pytest.importorskip("numba", reason="numba is not installed (accord[fast])")


def plain(monkeypatch):
    monkeypatch.setattr(cpu, "usable", lambda _tensor: False)


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


@pytest.mark.parametrize("decay", [[0.0, 0.0], [0.03, 2.0]])
@pytest.mark.parametrize("gaps", [False, True])
def test_rows_end_where_dense_adam_ends(decay, gaps):
    """Three thousand steps; with gaps, most rows are left alone for hundreds of steps, and one for ever."""
    rows, generator = 40, torch.Generator().manual_seed(1)
    mine, usual = table(rows), table(rows)
    factors = torch.tensor(decay)
    optimizer, dense = Adam([mine.weight], 0.01, [mine]), torch.optim.Adam([usual.weight], 0.01)
    optimizer.start()
    for step in range(3000):
        if gaps:
            ids = torch.stack([torch.tensor([step // 300, 10 + step % 29, 3]) for _ in range(2)])
        else:
            ids = torch.randint(0, rows, (2, 30), generator=generator)
        slopes = torch.randn(*ids.shape, 5, generator=generator)
        for one in (mine, usual):
            one.zero_grad(set_to_none=True)
            looked_up = one(ids) if one is mine else one.weight[torch.arange(2)[:, None], ids]
            (looked_up * slopes).sum().backward()
        usual.weight.grad += factors.view(2, 1, 1) * usual.weight.detach()
        optimizer.step({mine.weight: factors})
        dense.step()
    assert mine.rows.last.min() < 3000 or not gaps
    optimizer.release()
    torch.testing.assert_close(mine.weight, usual.weight, rtol=1e-4, atol=1e-4)
    state, other = optimizer.state[mine.weight], dense.state[usual.weight]
    assert state["step"] == other["step"] == 3000
    for name in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(state[name], other[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["normal", "deca", "deca-p"])
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_training_by_rows_is_training(model, method, threads, monkeypatch):
    run = plan_small(model, method, (3, 5), epochs=4)
    before = torch.get_num_threads()
    with monkeypatch.context() as patch:
        plain(patch)
        expected, states = train_stack(small_data(), run, CPU)
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)
    torch.set_num_threads(threads)
    try:
        found, others = train_stack(small_data(), run, CPU)
    finally:
        torch.set_num_threads(before)
    for state, other in zip(states, others, strict=True):
        losses = [torch.tensor([entry["loss"] for entry in s.history]) for s in (state, other)]
        torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-4)
    for (name, tensor), other in zip(found.state_dict().items(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(tensor, other, rtol=1e-2, atol=2e-3, msg=lambda text, n=name: f"{n}: {text}")
    assert all(module.rows is None for module in found.modules() if isinstance(module, Embedding))


def test_a_table_that_is_read_otherwise_is_left_to_dense_adam(monkeypatch):
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
    monkeypatch.setattr(layers, "WORTH_ROWS", 4)
    assert layers.tables_by_rows(looks_up, 3) == []


def test_resumed_by_rows_ends_at_the_very_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)
    options = {"train__checkpoint_seconds": 0.0}
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


@pytest.mark.parametrize("weighted", [False, True])
def test_dot_products_of_rows_and_their_gradient(weighted, monkeypatch):
    tables = table(30, seed=1), table(20, seed=2)
    weight = torch.randn(2, 5, requires_grad=True) if weighted else None
    ids = [torch.randint(0, rows, (2, 77)) for rows in (30, 20)]
    slopes = torch.randn(2, 77)
    wanted = [tables[0].weight, tables[1].weight, *([] if weight is None else [weight])]
    found = pair_dot(*tables, *ids, weight)
    gradients = torch.autograd.grad((found * slopes).sum(), wanted)
    plain(monkeypatch)
    expected = pair_dot(*tables, *ids, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad((expected * slopes).sum(), wanted), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sums_of_rows_of_distinct_ids_and_their_gradient():
    """Looked up once each, however often they occur; runs differ in how many there are."""
    tables = table(30, seed=1), table(20, seed=2)
    ids = [torch.randint(0, rows, (2, 77), generator=torch.Generator().manual_seed(3)) for rows in (30, 20)]
    ids[0][1] = 7
    slopes = torch.randn(2, 77, 5)
    found = [cpu.distinct(part, rows) for part, rows in zip(ids, (30, 20), strict=True)]
    assert found[0][0].shape == (2, len(ids[0][0].unique()))
    assert (found[0][0][1] == 7).all()
    for part, (rows, places) in zip(ids, found, strict=True):
        assert torch.equal(rows.gather(1, places), part)
    weights = [one.weight for one in tables]
    rows = [one(rows) for one, (rows, _) in zip(tables, found, strict=True)]
    sums = cpu.pair_sum(*rows, *(places for _, places in found))
    expected = sum(one.weight[torch.arange(2)[:, None], part] for one, part in zip(tables, ids, strict=True)).relu()
    torch.testing.assert_close(sums, expected)
    gradients = (torch.autograd.grad((x * slopes).sum(), weights) for x in (sums, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_neumf_scores_in_small_parts(num_layers, threads, monkeypatch):
    """Of two runs, with more items than fit into a part, for one user and for many; and torch's threads stay."""
    run = plan_small("neumf", "normal", (3, 5), epochs=1, model__num_layers=num_layers)
    method, _ = train_stack(small_data(), run, CPU)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    monkeypatch.setattr(cpu, "PAIRS_WITHIN_CACHE", 7)
    try:
        for users in (torch.tensor([4]), torch.arange(10)):
            with torch.no_grad():
                found = method.eval().score_all(users)
                assert torch.get_num_threads() == threads
                with monkeypatch.context() as patch:
                    plain(patch)
                    expected = method.score_all(users)
            assert found.shape[-1] > 2 * cpu.PAIRS_WITHIN_CACHE
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            with torch.inference_mode():
                assert torch.equal(method.score_all(users), found)
    finally:
        torch.set_num_threads(before)
