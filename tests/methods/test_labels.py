"""Labels in every method: the loss of a labelled pair is that of its label, against formulas in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import accord
from accord.data.interactions import Interactions
from accord.data.sampling import Batch
from accord.methods.labels import labelled, labels_of
from accord.protocol import CORRECTED, PUBLISHED
from accord_lab.methods import ALL_METHODS
from helpers import assert_same_weights, small_data, train_small
from method_cases import (
    TRAIN,
    UNKNOWN,
    entropies,
    found,
    labelled_log,
    log_batch,
    make,
    means,
    numbers,
    probability,
    random_batch,
    split,
    with_labels,
)  # fmt: skip


@pytest.mark.parametrize("name", ["normal", "wbpr", "ensemble"])
def test_plain_cross_entropy_is_against_the_label(name):
    method = make(name, ({},) if name == "ensemble" else ({}, {}))
    batch, label = with_labels(random_batch(2))
    np.testing.assert_allclose(found(method, batch), means(*entropies(method, batch, label)), rtol=1e-9)


AGREEMENT = [{"c1": 3.0, "c2": 0.5, "alpha": 0.2}, {"c1": 100.0, "c2": 10.0, "alpha": 0.5}]


def log(x):
    return np.log(x + 1e-5)


def divergence(a, b):
    return a * (log(a) - log(b)) + (1 - a) * (log(1 - a) - log(1 - b))


def expected_agreement(method, batch, label, phase, alpha_on):
    """DeCA's loss, in which a labelled positive has CE(r, f) + CE(r, p) and the known branch of the likelihood."""
    networks = method.target, method.partner, method.h, method.h_real
    (f, f0), (p, p0), (h, h0), (g, g0) = (split(probability(net, batch)) for net in networks)  # g is h'
    c1, c2, alpha = (numbers(AGREEMENT, name) for name in ("c1", "c2", "alpha"))

    def disagreement(f, p):
        one, other = divergence(p, f), divergence(f, p)
        return alpha * one + (1 - alpha) * other if alpha_on == "p-f" else alpha * other + (1 - alpha) * one

    if phase == "dp":
        positive, negative = log(h) * (1 - f), log(1 - h0) * (1 - f0) - c1 * f0
    elif phase == "dn":
        positive, negative = log(g) * f - c2 * (1 - f), log(1 - g0) * f0
    else:
        positive, negative = log(1 - h) * (1 - f) + log(1 - g) * f, log(1 - h0) * (1 - f0) + log(1 - g0) * f0
    likely = {"dp": (1 - label) * log(h), "dn": label * log(g), "both": (1 - label) * log(h) + label * log(g)}[phase]
    told = -label * (log(f) + log(p)) - (1 - label) * (log(1 - f) + log(1 - p)) - likely
    return means(np.where(np.isnan(label), disagreement(f, p) - positive, told), disagreement(f0, p0) - negative)


@pytest.mark.parametrize("name", ["deca", "deca-p"])
@pytest.mark.parametrize(
    ("protocol", "step", "phase"), [(CORRECTED, 0, "dp"), (CORRECTED, 1, "dn"), (PUBLISHED, 0, "both")]
)
def test_agreement_with_what_is_known(name, protocol, step, phase):
    method = make(name, AGREEMENT, protocol=protocol)
    batch, label = with_labels(random_batch(2))
    weighs = "f-p" if name == "deca-p" and protocol is CORRECTED else "p-f"
    expected = expected_agreement(method, batch, label, phase, weighs)
    np.testing.assert_allclose(found(method, batch, step), expected, rtol=1e-8)


# --- every method


def pushes(method, batch: Batch) -> np.ndarray:
    """The direction in which each positive's logit is pushed: [R, P]; over a DP and a DN step, after the ramps."""
    logits = []
    forward = method.target.forward

    def keeping(users, items):
        made = forward(users, items)
        if made.requires_grad:
            made.retain_grad()
            logits.append(made)
        return made

    method.target.forward = keeping
    for step in (10**6, 10**6 + 1):
        method.begin_step(step)
        method.loss(batch).sum().backward()
    return -np.sum([one.grad.numpy() for one in logits], 0)[:, : batch.num_positives]


@pytest.mark.parametrize(
    "name", [name for name in ALL_METHODS if name not in ("softmax", "bsl", "deca-softmax")]
)  # where a label is a weight
def test_what_is_known_is_pushed_to_its_label(name):
    train, label = labelled_log()
    label = np.where(label == 0.3, UNKNOWN, label)
    train = replace(train, columns={"label": label})
    options = {"tce": {"drop": 0.5}, "dcf": {"drop": 0.5}, "udt": {"warmup": 0}, "eard": {"warmup": 0}}.get(name, {})
    method = make(name, [options], train=train)
    method.begin_epoch(0)
    runs = len(method.target.seeds)
    batch = log_batch(train, runs=runs)
    batch, drawn = with_labels(batch, label[batch.column("place").numpy()])
    push = pushes(method, batch)
    assert (push[drawn == 1] > 0).all()
    assert (push[drawn == 0] < 0).all()


@pytest.mark.parametrize("name", ALL_METHODS)
def test_labels_of_which_none_is_known_change_nothing(name):
    method, batch = make(name), log_batch()
    if name == "ensemble":
        batch = log_batch(runs=6)
    empty, _ = with_labels(batch, np.full(batch.column("place").shape, UNKNOWN))
    states = [stream.get_state() for stream in method.draws.streams] if name == "pld" else []
    one = found(method, batch, 10**6)
    for stream, state in zip(method.draws.streams if name == "pld" else (), states, strict=True):
        stream.set_state(state)
    if name == "dcf":  # it remembers
        method = make(name)
    # BSL's counts have the precision of labels
    np.testing.assert_allclose(found(method, empty, 10**6), one, rtol=1e-6 if name == "bsl" else 1e-12)


def some_labels(share: float = 0.3):
    data = small_data()
    value = data.train.column("value").astype(float)
    label = np.where(np.random.default_rng(0).random(len(value)) < share, value, np.nan)
    own = Interactions.of(data.train.users, data.train.items, label=label)
    return replace(data, train=own)


@pytest.mark.parametrize("name", ["deca", "tce", "pld", "udt"])
def test_a_run_of_a_stack_with_labels_equals_the_run_alone(name):
    data = some_labels()
    stack, _ = train_small("mf", name, (3, 5), data=data, epochs=2)
    alone, _ = train_small("mf", name, (5,), data=data, epochs=2)
    for key, tensor in alone.state_dict().items():
        torch.testing.assert_close(stack.state_dict()[key][1:], tensor, rtol=1e-4, atol=5e-5)


def test_labels_reach_the_loss_and_the_note_says_so():
    data = some_labels()
    told = accord.fit(data, "mf", "deca", epochs=2, device="cpu")
    number = int(labelled(data.training_csr()).sum())
    assert told.metrics["notes"] == [
        f"{number} of {len(data.train)} training interactions have a label, which the loss takes as the truth."
    ]
    bare = replace(data, train=data.train.without("label"))
    plain = accord.fit(bare, "mf", "deca", epochs=2, device="cpu")
    assert "notes" not in plain.metrics
    assert not torch.equal(plain.method.target.user.weight, told.method.target.user.weight)
    solved = accord.fit(data, "ease", device="cpu", refit=False)
    assert "ignores labels" in solved.metrics["notes"][0]


def test_members_of_a_consensus_are_trained_without_labels():
    """What labels teach them is the consensus's own affair."""
    data = some_labels(0.05)  # too few to be used
    members = [{"model": "mf", "method": "normal", "weight": 1}, {"model": "popularity", "weight": 1}]
    made = [
        accord.fit(part, "consensus", options={"model.members": members, "train.epochs": 2}, device="cpu", refit=False)
        for part in (data, replace(data, train=data.train.without("label")))
    ]
    assert_same_weights(made[0].method.state_dict(), made[1].method.state_dict())


def test_nothing_is_known_of_a_batch_without_labels():
    assert labels_of(random_batch()) is None
    assert not labelled(TRAIN).any()
