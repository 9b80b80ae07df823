"""Numbers that could go wrong: the campaign of stress/arithmetic.py, made small, and what it rests on."""

from __future__ import annotations

import arithmetic
import pytest
import torch

from accord.data.sampling import NOT_SHARED_OUT, sums
from accord.errors import InputError
from accord.fitting import fit


@pytest.mark.parametrize("name", arithmetic.LEARNED)
def test_loss_and_gradients_are_finite_and_near_to_float64(name):
    worst, cases, finite = arithmetic.precision_of(name)
    assert finite == cases >= 30
    assert max(loss for loss, _ in worst.values()) < 1e-5
    assert max(slope for _, slope in worst.values()) < 5e-3


def test_probabilities_really_reach_nought_and_one():
    logits = arithmetic.Logits(1, 1000.0, seed=0).value.detach().float()
    probabilities = torch.sigmoid(logits)
    assert (probabilities == 0).any()
    assert (probabilities == 1).any()


def test_a_loss_that_is_no_number_is_noticed(monkeypatch):
    """The campaign's own judgement."""
    broken = arithmetic.find_method("deca")
    monkeypatch.setattr(broken, "loss", lambda method, batch: method.target.value.sum(1) * float("nan"))
    _, cases, finite = arithmetic.precision_of("deca")
    assert finite == 0 < cases


def test_batches_without_a_pair_move_nothing():
    assert arithmetic.empty_batches()


def test_the_smallest_data_trains_or_is_refused_in_a_sentence():
    table, good = arithmetic.smallest(["gmf", "cdae"], ["wbpr", "deca-p"])
    assert good
    assert [row[1] for row in table.rows] == [2, 2, 4, 2, 0, 0]


def test_no_training_pair_is_one_sentence():
    with pytest.raises(InputError, match="tiny has no training interaction"):
        fit(arithmetic.SMALLEST["no training pair"], "gmf", "normal", device="cpu")


def test_what_diverges_is_said():
    table, good = arithmetic.diverging(["gmf"], ["normal", "deca-p"])
    assert good
    assert table.rows[-1][2] == 2


@pytest.mark.parametrize("size", [1, 5_000, NOT_SHARED_OUT, 3 * NOT_SHARED_OUT + 17])
def test_long_sums_do_not_depend_on_the_threads(size):
    values = torch.randn(1, size, generator=torch.Generator().manual_seed(3), requires_grad=True)
    found = []
    for threads in (1, 2, 1):
        torch.set_num_threads(threads)
        found.append(sums(values))
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], values.detach().double().sum(1).float(), rtol=1e-5, atol=1e-3)
    (slope,) = torch.autograd.grad(found[0].sum(), values)
    assert bool((slope == 1).all())
