"""By what is looked up, on CUDA, training is what it is with gradients of whole tables."""

from __future__ import annotations

import pytest
import torch

from accord.nn import layers, row_adam_cuda
from accord.nn.adam import Adam
from accord.nn.layers import Embedding, pair_dot
from accord.nn.row_adam_cuda import RowsOnCuda, TableOnCuda
from accord.training.stack import train_stack
from helpers import assert_same_training, plan_small, small_data

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
CUDA = torch.device("cuda")
RUNS, ROWS, DIM = 2, 40, 5


def tables():
    made = Embedding(RUNS, ROWS, DIM), Embedding(RUNS, 7, DIM)
    for seed, table in enumerate(made):
        with torch.no_grad():
            table.weight.normal_(generator=torch.Generator().manual_seed(seed))
    return [table.to(CUDA) for table in made]


@pytest.mark.parametrize("decay", [[0.0, 0.0], [0.03, 2.0]])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("kind", "decoupled"), [(RowsOnCuda, True), (TableOnCuda, True), (TableOnCuda, False)])
@pytest.mark.parametrize("counted", [2**17, 70])
def test_rows_end_where_those_of_a_whole_gradient_end(counted, kind, decoupled, gaps, decay, monkeypatch):
    """Looked up, and multiplied with those of a table that is updated as a whole; rows are looked up twice at once, and
    with gaps most are left alone for hundreds of steps. A step in which nothing is looked up changes nothing."""
    monkeypatch.setattr(row_adam_cuda, "COUNTED", counted)
    (mine, other), (usual, its_other) = tables(), tables()
    factors, generator = torch.tensor(decay, device=CUDA), torch.Generator().manual_seed(1)
    optimizer = Adam([mine.weight, other.weight], 0.01, {mine: kind}, decoupled)
    dense = Adam([usual.weight, its_other.weight], 0.01, decoupled=decoupled)
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
    assert kind is TableOnCuda or mine.rows.last.min() < 500 or not gaps
    optimizer.zero_grad()
    optimizer.step({mine.weight: factors})
    optimizer.release()
    for table, expected in ((mine, usual), (other, its_other)):
        torch.testing.assert_close(table.weight, expected.weight, rtol=1e-4, atol=1e-4)
    state, expected = optimizer.state[mine.weight], dense.state[usual.weight]
    assert state["step"] == expected["step"] == 500
    for name in optimizer.remembers[1:]:
        torch.testing.assert_close(state[name], expected[name], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("worth", "optimiser"),
    [("WORTH_ROWS_ON_CUDA", "decoupled"), ("WORTH_KERNEL", "decoupled"), ("WORTH_KERNEL", "adam")],
)
@pytest.mark.parametrize("method", ["normal", "deca", "deca-p", "pld"])
@pytest.mark.parametrize("model", ["mf", "gmf", "neumf"])
def test_training_by_rows_is_training(model, method, worth, optimiser, monkeypatch):
    """Recorded, and where that is not possible (PLD) step by step."""
    run = plan_small(model, method, (3, 5), epochs=4, protocol__optimiser=optimiser)
    made, tables_by_rows = [], layers.tables_by_rows
    expected = train_stack(small_data(), run, CUDA)
    monkeypatch.setattr(layers, worth, 0)
    monkeypatch.setattr(
        "accord.training.trainer.tables_by_rows", lambda *given: made.append(tables_by_rows(*given)) or made[-1]
    )
    found = train_stack(small_data(), run, CUDA)
    kinds = {kind for tables in made for kind in tables.values()}
    assert all(made)
    assert kinds == {RowsOnCuda if worth == "WORTH_ROWS_ON_CUDA" else TableOnCuda}
    assert_same_training(found, expected, losses=(2e-3, 1e-4), weights=(2e-2, 5e-3))
    assert all(module.rows is None for module in found[0].modules() if isinstance(module, Embedding))
