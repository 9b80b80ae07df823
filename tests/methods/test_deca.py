"""DeCA and DeCA(p) against the formulas of the paper, written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.methods import find_method
from accord.methods.deca import DeCARules
from accord.protocol import CORRECTED, PUBLISHED
from helpers import assert_same_run, make_method, stages_of, train_small
from method_cases import TRAIN, found, make, means, numbers, probability, random_batch, split

GUARD = 1e-5


AGREEMENT = [
    {"c1": 3.0, "c2": 0.0, "alpha": 0.0},
    {"c1": 100.0, "c2": 10.0, "alpha": 0.5},
    {"c1": 0.5, "c2": 1000.0, "alpha": 1.0},
]


def log(x):
    return np.log(x + GUARD)


def divergence(a, b):
    return a * (log(a) - log(b)) + (1 - a) * (log(1 - a) - log(1 - b))


def expected_agreement(method, batch, options, phase, alpha_on="p-f"):
    """The paper's loss of DeCA and DeCA(p), as PAPER.md has it."""
    f, p, h, h_real = (probability(net, batch) for net in (method.target, method.partner, method.h, method.h_real))
    c1, c2, alpha = (numbers(options, name) for name in ("c1", "c2", "alpha"))
    weighed, other = (divergence(p, f), divergence(f, p)) if alpha_on == "p-f" else (divergence(f, p), divergence(p, f))
    k = alpha * weighed + (1 - alpha) * other
    (f1, f0), (h1, h0), (r1, r0), (k1, k0) = (split(x) for x in (f, h, h_real, k))
    if phase == "dp":
        positive, negative = log(h1) * (1 - f1), log(1 - h0) * (1 - f0) - c1 * f0
    elif phase == "dn":
        positive, negative = log(r1) * f1 - c2 * (1 - f1), log(1 - r0) * f0
    else:
        positive, negative = (log(1 - a) * (1 - b) + log(1 - c) * b for a, b, c in ((h1, f1, r1), (h0, f0, r0)))
    return means(k1 - positive, k0 - negative)


PHASES = [
    (CORRECTED, {}, ["dp", "dn", "dp", "dn", "dp"]),
    (PUBLISHED, {}, ["both", "dp", "dn", "dp", "dn"]),
    (CORRECTED, {"only": "dp"}, ["dp"] * 5),
    (PUBLISHED, {"only": "dp"}, ["dp"] * 5),
    (CORRECTED, {"only": "dn"}, ["dn"] * 5),
    (PUBLISHED, {"only": "dn"}, ["dn"] * 5),
    (CORRECTED, {"alternate": False}, ["both"] * 5),
]


@pytest.mark.parametrize("name", ["deca", "deca-p"])
@pytest.mark.parametrize(("protocol", "more", "phases"), PHASES)
def test_agreement_losses_and_the_order_of_phases(name, protocol, more, phases):
    options = [given | more for given in AGREEMENT]
    method, batch = make(name, options, protocol=protocol), random_batch()
    weighs = "p-f" if name == "deca" else protocol.rules_of(DeCARules).alpha_weighs
    losses = {phase: expected_agreement(method, batch, options, phase, weighs) for phase in ("dp", "dn", "both")}
    assert not np.isclose(losses["dp"], losses["dn"]).any(), "the phases can be told apart"
    for step, phase in enumerate(phases):
        assert method.begin_step(step) == phase
        np.testing.assert_allclose(found(method, batch, step), losses[phase], rtol=1e-8)


@pytest.mark.parametrize("weighs", ["p-f", "f-p"])
def test_the_divergence_that_alpha_weighs_in_deca_p(weighs):
    protocol = CORRECTED.model_copy(update={"alpha_weighs": weighs})
    method, batch = make("deca-p", AGREEMENT, protocol=protocol), random_batch()
    one, other = (expected_agreement(method, batch, AGREEMENT, "dp", way) for way in ("p-f", "f-p"))
    assert not np.isclose(one[[0, 2]], other[[0, 2]]).any()
    np.testing.assert_allclose(found(method, batch), one if weighs == "p-f" else other, rtol=1e-8)


def test_deca_reads_alpha_as_the_paper_does_under_either_rule():
    batch = random_batch()
    for weighs in ("p-f", "f-p"):
        method = make("deca", AGREEMENT, protocol=CORRECTED.model_copy(update={"alpha_weighs": weighs}))
        np.testing.assert_allclose(found(method, batch), expected_agreement(method, batch, AGREEMENT, "dp"), rtol=1e-8)


def test_posterior_of_deca():
    method, batch = make("deca", AGREEMENT), random_batch()
    f, h, h_real = (probability(net, batch) for net in (method.target, method.h, method.h_real))
    posterior = method.belief(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(posterior, h_real * f / (h_real * f + h * (1 - f)), rtol=1e-8)


def gradients(method, step):
    """Total gradient that each network gets from one step."""
    method.zero_grad(set_to_none=True)
    method.begin_step(step)
    method.loss(random_batch()).sum().backward()
    return {
        name: sum(0.0 if p.grad is None else float(p.grad.abs().sum()) for p in network.parameters())
        for name, network in method.named_children()
    }


@pytest.mark.parametrize(("phase", "step"), [("dp", 0), ("dn", 1)])
@pytest.mark.parametrize("name", ["deca", "deca-p"])
def test_each_phase_trains_its_own_networks(name, phase, step):
    found = gradients(make(name, AGREEMENT), step)
    trained = {"target", "h" if phase == "dp" else "h_real"} | ({"partner"} if name == "deca" else set())
    assert {network for network, size in found.items() if size > 0} == trained
    assert set(found) == {"target", "partner", "h", "h_real"}


def test_the_first_published_step_trains_both_corruption_networks():
    found = gradients(make("deca", AGREEMENT, protocol=PUBLISHED), 0)
    assert all(size > 0 for size in found.values())


def test_deca_p_pretrains_its_partner_and_nothing_else():
    method = make("deca-p", AGREEMENT)
    before, last = stages_of(method)
    assert last is method
    assert before.target is method.partner
    batch = random_batch()
    positive, negative = split(probability(method.partner, batch))
    np.testing.assert_allclose(found(before, batch), means(-np.log(positive), -np.log(1 - negative)), rtol=1e-9)
    assert not method.partner.training, "frozen, though the method trains"
    assert method.target.training


@pytest.mark.parametrize(("start", "same"), [("same", True), ("different", False)])
def test_the_start_of_the_frozen_partner(start, same):
    method = make_method("deca-p", [{}] * 2, TRAIN, protocol=CORRECTED.model_copy(update={"partner_start": start}))
    assert torch.equal(method.partner.user.weight, method.target.user.weight) == same
    assert not torch.equal(method.h.user.weight, method.h_real.user.weight)


@pytest.mark.parametrize("h", ["mf", "gmf", "neumf", "lightgcn", "cdae"])
def test_the_corruption_networks_are_of_the_kind_asked_for(h):
    method = make_method("deca", [{"h": h, "g": "gmf"}], TRAIN, "lightgcn")
    assert (method.h.name, method.h_real.name, method.partner.name) == (h, h, "gmf")
    assert method.target.name == "lightgcn"


PARTNERS = [("deca-p", "partner", "ease"), ("deca", "g", "ials"), ("deca-p", "partner", "popularity")]


@pytest.mark.parametrize(("name", "option", "partner"), PARTNERS)
def test_a_solved_partner_is_frozen_and_no_weight(name, option, partner):
    """Run by run the same as alone; what is saved has nothing of it, and loads without solving."""
    seeds = (3, 5)
    stack, states = train_small("gmf", name, seeds, **{f"method__{option}": partner})
    assert len(states) == 1
    assert [entry["stage"] for entry in states[0].history] == ["1/1"] * len(states[0].history)
    assert not any(key.startswith("partner") for key in stack.state_dict())
    for run, seed in enumerate(seeds):
        alone, _ = train_small("gmf", name, (seed,), **{f"method__{option}": partner})
        assert_same_run(stack.state_dict(), run, alone.state_dict())
    other, _ = train_small("gmf", name, seeds, **{f"method__{option}": "mf"})
    assert not torch.equal(other.target.user.weight, stack.target.user.weight), "its opinion matters"


def test_deca_p_with_a_learned_partner_of_another_kind():
    method = make_method("deca-p", [{"partner": "mf"}] * 2, TRAIN, "gmf")
    before, last = stages_of(method)
    assert (before.target.name, last.target.name) == ("mf", "gmf")
    assert before.target is method.partner
    assert method.num_stages == 2


def test_the_opinion_of_a_solved_partner_is_in_the_loss():
    method = make("deca-p", [given | {"partner": "popularity"} for given in AGREEMENT], protocol=CORRECTED)

    class Said(torch.nn.Module):
        def forward(self, users, items):
            return (users - items).double() / 3

    method.partner = Said()
    batch = random_batch()
    p = 1 / (1 + np.exp(-(batch.users - batch.items).double().numpy() / 3))
    f, h = probability(method.target, batch), probability(method.h, batch)
    c1, alpha = numbers(AGREEMENT, "c1"), numbers(AGREEMENT, "alpha")
    k = alpha * divergence(f, p) + (1 - alpha) * divergence(p, f)
    (f1, f0), (h1, h0), (k1, k0) = (split(x) for x in (f, h, k))
    expected = means(k1 - log(h1) * (1 - f1), k0 - log(1 - h0) * (1 - f0) + c1 * f0)
    np.testing.assert_allclose(found(method, batch), expected, rtol=1e-6)


def test_options_of_before_are_written_as_before():
    assert "partner" not in find_method("deca-p").Config().model_dump()
    assert find_method("deca-p").Config(partner="ease").model_dump()["partner"] == "ease"
    assert set(find_method("tce").Config().model_dump()) == {"drop", "ramp"}
