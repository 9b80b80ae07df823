"""A solved model as a partner: its scores as probabilities, whatever its family."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from accord.data.csr import Csr
from accord.errors import InputError
from accord.methods import partner as module
from accord.methods.base import Build
from accord.methods.partner import SolvedPartner, platt
from accord.models import SOLVED
from accord.models.base import Setup
from accord.protocol import CORRECTED
from helpers import CPU, csr, random_csr, small_data, train_small, with_times

ALL = random_csr(30, 14, 0.45, seed=2)
HELD = np.random.default_rng(0).random(len(ALL.items)) < 0.2
HELD &= ALL.users != 3  # all of user 3 is known
TRAIN, VALID = (Csr.of(ALL.users[part], ALL.items[part], 30, 14) for part in (~HELD, HELD))
TRAIN.columns["time"] = np.random.default_rng(1).permutation(len(TRAIN.items))  # for those that know order
SEEDS = (3, 5)


class Lab:
    def __init__(self, train=TRAIN, valid=VALID):
        self.train_pairs, self.valid = train, valid

    def solve(self, model):
        model.fit(self.train_pairs, None)

    @property
    def validation_pairs(self):
        return self.valid


def solved(name, seeds=SEEDS, train=TRAIN, valid=VALID):
    made = SolvedPartner(name, Build("deca-p", "mf", {}, Setup(train, seeds, CORRECTED)))
    made.solve(Lab(train, valid), CPU)
    return made


def every_pair(runs):
    users, items = torch.cartesian_prod(torch.arange(30), torch.arange(14)).T
    return users.expand(runs, -1), items.expand(runs, -1)


def test_platt_is_the_likeliest_scale():
    rng = np.random.default_rng(1)
    observed = rng.random(400) < 0.5
    scores = rng.normal(size=400) + 1.5 * observed
    a, b = platt(scores, observed)
    target = np.where(observed, (observed.sum() + 1) / (observed.sum() + 2), 1 / ((~observed).sum() + 2))
    best = minimize(
        lambda ab: np.mean(np.logaddexp(0, ab[0] * scores + ab[1]) - target * (ab[0] * scores + ab[1])), [0, 0]
    )
    np.testing.assert_allclose([a, b], best.x, rtol=1e-3)


def test_platt_is_finite_where_scores_separate_and_where_they_say_nothing():
    observed = np.repeat([True, False], 50)
    a, b = platt(np.where(observed, 1.0, -1.0), observed)
    assert 1 < a < 10
    assert abs(b) < 1e-6
    assert platt(np.zeros(100), observed) == pytest.approx((0, 0), abs=1e-9)


@pytest.mark.parametrize("kept", [0, 2**26], ids=["on demand", "kept whole"])
@pytest.mark.parametrize("name", [model.name for model in SOLVED])
def test_logits_are_the_scaled_scores_of_any_family(name, kept, monkeypatch):
    monkeypatch.setattr(module, "KEPT_WHOLE", kept)
    monkeypatch.setattr(module, "SCORED_AT_ONCE", 14 * 8)  # a few users at a time
    made = solved(name)
    assert made.recordable == (kept > 0)
    model = made._model[0]
    scores = model.score_all(torch.arange(30)).double().numpy()
    spread = scores.std(-1, keepdims=True)
    scaled = (scores - scores.mean(-1, keepdims=True)) / np.where(spread > 0, spread, 1)
    a, b = (part.double().numpy() for part in made._scale)
    expected = np.broadcast_to(a * scaled + b, (2, 30, 14)).reshape(2, -1)
    found = made(*every_pair(2)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    order = torch.randperm(30 * 14, generator=torch.Generator().manual_seed(0))
    users, items = (rows[:, order] for rows in every_pair(2))
    np.testing.assert_allclose(made(users, items).numpy(), expected[:, order.numpy()], rtol=1e-4, atol=1e-4)
    assert not made.state_dict(), "no part of a method's weights"


@pytest.mark.parametrize("name", ["ease", "ials"])
def test_a_run_has_the_opinion_that_it_has_alone(name):
    together, alone = solved(name)(*every_pair(2)), solved(name, (5,))(*every_pair(1))
    torch.testing.assert_close(together[1], alone[0], rtol=1e-4, atol=1e-5)
    assert torch.equal(together[0], together[1]) == (name == "ease"), "seeds matter where a model draws numbers"


def test_observed_pairs_are_held_likelier_than_others():
    """Groups of users who take the same items: the partner knows what was held out."""
    rng = np.random.default_rng(4)
    users, items = np.nonzero((np.arange(60)[:, None] % 3 == np.arange(30) % 3) & (rng.random((60, 30)) < 0.7))
    held = rng.random(len(users)) < 0.2
    train, valid = (Csr.of(users[part], items[part], 60, 30) for part in (~held, held))
    made = solved("ease", train=train, valid=valid)
    believed = torch.sigmoid(made.opinions(torch.arange(60))[0]).numpy()
    other = np.nonzero(np.arange(60)[:, None] % 3 != np.arange(30) % 3)
    assert believed[valid.users, valid.items].mean() > 0.8
    assert believed[other].mean() < 0.2


def test_without_validation_it_is_one_sentence():
    with pytest.raises(InputError, match="ease gives scores, and needs validation pairs of users with history"):
        solved("ease", valid=csr(30, 14, []))


def test_memory_is_given_back():
    made = solved("ease")
    made.forget()
    assert not made._model
    assert made._every is None


@pytest.mark.parametrize(("method", "option"), [("deca", "g"), ("deca-p", "partner")])
def test_a_partner_that_knows_order_gets_the_times_of_the_log(method, option):
    chosen = {f"method__{option}": "next-knn"}
    made, _ = train_small("gmf", method, (3,), with_times(small_data()), epochs=1, **chosen)
    assert made.target.score_all(torch.arange(3)).isfinite().all()
    with pytest.raises(InputError, match="model next-knn learns from the order"):
        train_small("gmf", method, (3,), small_data(), epochs=1, **chosen)
