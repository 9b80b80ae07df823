"""Every method's loss against the formulas of the paper, written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.data.sampling import Batch
from accord.errors import InputError
from accord.methods import METHODS
from accord.methods.deca import DeCARules
from accord.methods.solve import Solve
from accord.models.cdae import CDAERules
from accord.protocol import CORRECTED, PUBLISHED
from helpers import make_method, make_model, random_csr, spread, stages_of

USERS, ITEMS, POSITIVES = 12, 9, 20
TRAIN = random_csr(USERS, ITEMS, 0.3)
GUARD = 1e-5
AGREEMENT = [
    {"c1": 3.0, "c2": 0.0, "alpha": 0.0},
    {"c1": 100.0, "c2": 10.0, "alpha": 0.5},
    {"c1": 0.5, "c2": 1000.0, "alpha": 1.0},
]


def make(method, options=({}, {}, {}), model="mf", protocol=CORRECTED, **more):
    """A method in float64 with weights far from their start."""
    made = make_method(method, options, TRAIN, model, protocol, **more).double()
    spread(made)
    return made.train()


def random_batch(runs=3, size=POSITIVES, seed=0) -> Batch:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, (runs, size))
    items = rng.integers(0, ITEMS, (runs, 2 * size))
    return Batch(torch.from_numpy(np.concatenate([users, users], 1)), torch.from_numpy(items), size)


def probability(mf, batch):
    """P of every pair by an MF of this stack: [R, P + N]."""
    runs = np.arange(len(batch.users))[:, None]
    user = mf.user.weight.detach().numpy()[runs, batch.users.numpy()]
    item = mf.item.weight.detach().numpy()[runs, batch.items.numpy()]
    return 1 / (1 + np.exp(-(user * item).sum(-1)))


def split(values, size=POSITIVES):
    return values[:, :size], values[:, size:]


def means(positive, negative):
    return positive.mean(1) + negative.mean(1)


def log(x):
    return np.log(x + GUARD)


def divergence(a, b):
    return a * (log(a) - log(b)) + (1 - a) * (log(1 - a) - log(1 - b))


def numbers(options, name):
    return np.array([[given[name]] for given in options])


def found(method, batch, step=0):
    method.begin_step(step)
    return method.loss(batch).detach().numpy()


@pytest.mark.parametrize("name", ["normal", "wbpr"])
def test_plain_cross_entropy(name):
    method, batch = make(name), random_batch()
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), means(-np.log(positive), -np.log(1 - negative)), rtol=1e-9)


def test_wbpr_asks_for_popular_negatives():
    assert METHODS["wbpr"].negatives == "popularity"
    assert [name for name, method in METHODS.items() if method.negatives] == ["wbpr"]


@pytest.mark.parametrize("step", [0, 1, 50, 99, 100, 1000])
def test_truncated_cross_entropy(step):
    """Epsilon rises to `drop` over `ramp` steps; the largest losses among the positives go."""
    options = [{"drop": 0.2, "ramp": 100}, {"drop": 0.4, "ramp": 100}, {"drop": 0.31, "ramp": 1000}]
    method, batch = make("tce", options), random_batch()
    positive, negative = split(probability(method.target, batch))
    positive, negative = -np.log(positive), -np.log(1 - negative)
    expected, dropped = [], []
    for run, given in enumerate(options):
        epsilon = given["drop"] * min(step / given["ramp"], 1)
        dropped.append(int(np.floor(epsilon * 2 * POSITIVES + 1e-9)))
        kept = np.concatenate([np.sort(positive[run])[: POSITIVES - dropped[-1]], negative[run]])
        expected.append(2 * kept.mean())  # twice: one mean where the other methods add two
    np.testing.assert_allclose(found(method, batch, step), expected, rtol=1e-9)
    if step == 50:
        assert dropped == [4, 8, 0]  # half of 0.2 of 40 pairs; half of 0.4; 0.0155 * 40 is less than one
    if step == 1000:
        assert dropped == [8, 16, 12]


def test_truncation_leaves_the_dropped_without_a_gradient():
    method, batch = make("tce", [{"drop": 0.5, "ramp": 1}]), random_batch(1)
    logits = []
    forward = method.target.forward

    def keeping(users, items):
        logits.append(forward(users, items))
        logits[-1].retain_grad()
        return logits[-1]

    method.target.forward = keeping
    method.begin_step(10)
    method.loss(batch).sum().backward()
    gradient = logits[0].grad[0]
    assert (gradient[:POSITIVES] == 0).all(), "half of the batch, positives and negatives together: every positive"
    assert (gradient[POSITIVES:] != 0).all()


def test_reweighted_cross_entropy():
    options = [{"beta": 0.0}, {"beta": 0.2}, {"beta": 0.3}]
    method, batch = make("rce", options), random_batch()
    positive, negative = split(probability(method.target, batch))
    beta = numbers(options, "beta")
    expected = means(-np.log(positive) * positive**beta, -np.log(1 - negative) * (1 - negative) ** beta)
    np.testing.assert_allclose(found(method, batch), expected, rtol=1e-6)  # beta itself is a float32


def test_weights_of_reweighted_cross_entropy_are_detached():
    """The gradient is that of plain BCE with fixed weights: (f - y) times the weight."""
    method, batch = make("rce", [{"beta": 0.3}]), random_batch(1)
    f = probability(method.target, batch)
    y = np.repeat([1.0, 0.0], POSITIVES)
    slope = (f - y) * np.where(y == 1, f, 1 - f) ** 0.3 / POSITIVES
    expected = np.zeros((USERS, 32))
    items = method.target.item.weight.detach().numpy()[0, batch.items[0]]
    np.add.at(expected, batch.users[0].numpy(), slope[0][:, None] * items)
    method.loss(batch).sum().backward()
    np.testing.assert_allclose(method.target.user.weight.grad[0].numpy(), expected, rtol=1e-6, atol=1e-8)


def test_ensemble_trains_members_apart_and_averages_probabilities():
    method = make("ensemble", ({}, {}))
    assert len(method.target.seeds) == 4
    batch = random_batch(4)
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), means(-np.log(positive), -np.log(1 - negative)), rtol=1e-9)
    users, items = batch.users[:1].expand(4, -1), batch.items[:1].expand(4, -1)
    f = probability(method.target, Batch(users, items, POSITIVES))
    mean = np.stack([(f[0] + f[2]) / 2, (f[1] + f[3]) / 2])  # runs r and r + 2 are members of one
    np.testing.assert_allclose(method.posterior(users[:2], items[:2]).detach().numpy(), mean, rtol=1e-9)
    scores = torch.sigmoid(method.score_all(torch.arange(USERS)))[:, users[0], items[0]]
    np.testing.assert_allclose(scores.detach().numpy(), mean, rtol=1e-9)


def test_ensemble_of_the_sure_keeps_their_order():
    """Probabilities that round to one: scores stay finite and in order."""
    method = make_method("ensemble", [{}], TRAIN, dim=1)
    with torch.no_grad():
        method.target.user.weight.fill_(1)
        method.target.item.weight.copy_(torch.linspace(-200, 200, ITEMS).view(1, ITEMS, 1).expand(2, -1, -1))
    scores = method.score_all(torch.tensor([0]))[0, 0]
    assert torch.isfinite(scores).all()
    assert (scores.diff() > 0).all()


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
    weighs = "p-f" if name == "deca" else protocol.own(DeCARules).alpha_weighs
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
    posterior = method.posterior(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(posterior, h_real * f / (h_real * f + h * (1 - f)), rtol=1e-8)


@pytest.mark.parametrize("name", ["normal", "wbpr", "tce", "rce", "deca-p"])
def test_posterior_is_the_target_itself(name):
    method, batch = make(name), random_batch()
    posterior = method.posterior(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(posterior, probability(method.target, batch), rtol=1e-9)


def test_solved_models_give_no_posterior():
    method = Solve([None], lambda **_: make_model("popularity", TRAIN), CORRECTED)
    with pytest.raises(InputError, match="gives no probability"):
        method.posterior(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_padding_changes_nothing(name, reduction):
    """Runs of a padded batch against each run's own, unpadded one."""
    options = [{"ramp": 1, "drop": 0.3}] * 3 if name == "tce" else [{}] * 3
    method = make(name, options)
    method.rules = summed() if reduction == "sum" else method.rules
    members = method.members
    sizes = [POSITIVES, 7, 1] * members
    batch = random_batch(3 * members)
    real = torch.arange(POSITIVES)[None] < torch.tensor(sizes)[:, None]
    padded = Batch(batch.users, batch.items, POSITIVES, torch.cat([real, real], 1).float())
    for step in (0, 1):
        together = found(method, padded, step)
        for run, size in enumerate(sizes):
            keep = torch.cat([real[run], real[run]])
            # the same pairs for every run, of which only this one is looked at
            users, items = (x[run, keep].expand(3 * members, -1) for x in (batch.users, batch.items))
            alone = found(method, Batch(users, items, size), step)
            np.testing.assert_allclose(together[run], alone[run], rtol=1e-6)


def summed():
    """The rules of a target whose plain loss is summed."""
    return PUBLISHED.own(CDAERules)


def test_summed_cross_entropy():
    method, batch = make("normal"), random_batch()
    method.rules = summed()
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), -np.log(positive).sum(1) - np.log(1 - negative).sum(1), rtol=1e-9)


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


def l2_case(method, protocol, model):
    """The method and the gradient of its penalty by `decay`."""
    made = make(method, protocol=protocol, model=model)
    l2 = torch.tensor([0.0, 0.1, 5.0], dtype=torch.float64)
    factors = made.decay(l2)
    left = {name: torch.zeros_like(parameter) for name, parameter in made.named_parameters()}
    for name, parameter in made.named_parameters():
        if parameter in factors:
            left[name] = parameter.detach() * factors[parameter].view(-1, *[1] * (parameter.dim() - 1))
    return made, l2, left


@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_l2_gradient_is_that_of_the_penalty(model):
    made, l2, left = l2_case("deca", CORRECTED, model)
    made.zero_grad(set_to_none=True)
    squares = sum(parameter.pow(2).flatten(1).sum(1) for parameter in made.target.parameters())
    (l2 / 2 * squares / USERS).sum().backward()
    for name, parameter in made.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(left[name], expected, msg=name)
        assert (expected.abs().sum() > 0) == name.startswith("target."), "L2 is on the target alone"


def test_l2_gradient_of_norms():
    """The released code's CDAE: l2 times the norm of each tensor, undivided."""
    made, l2, left = l2_case("normal", PUBLISHED, "cdae")
    made.zero_grad(set_to_none=True)
    norms = sum(parameter.flatten(1).norm(dim=1) for parameter in made.target.parameters())
    (l2 * norms).sum().backward()
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(left[name], parameter.grad, msg=name)
