"""DeCA on softmax against its formulas, written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit, logit, logsumexp

from accord.methods.partner import SolvedPartner
from helpers import train_small
from method_cases import ITEMS, USERS, make, probability, random_batch, split, with_labels

OPTIONS = [{"temperature": 0.5, "alpha": 0.3}, {"temperature": 2.0, "alpha": 0.5}, {"temperature": 1.0, "alpha": 0.0}]


def logits_of(target, temperatures, users, items):
    """log I − ℓ of pairs [R, B]: how much likelier than a pair drawn evenly."""
    both = [table.weight.detach().numpy() for table in (target.user, target.item)]
    result = []
    for run, temperature in enumerate(temperatures):
        scores = both[0][run] @ both[1][run].T / temperature
        result.append(np.log(ITEMS) + scores[users[run], items[run]] - logsumexp(scores, axis=1)[users[run]])
    return np.stack(result)


def expected(method, batch, p, trains_p, corruption=True, label=None, weight=None):
    size = batch.num_positives
    users, items = batch.users.numpy(), batch.items.numpy()
    f = logits_of(method.target, [one["temperature"] for one in OPTIONS], users, items)
    alpha = np.array([[one["alpha"]] for one in OPTIONS])
    agreed = (1 - alpha) * f + alpha * p
    h, h_real = (probability(network, batch) for network in (method.h, method.h_real))
    observed = np.arange(2 * size) < size
    like, like_real = (np.where(observed, x, 1 - x) for x in (h, h_real))
    ratio = (like_real / like)[:, :size] if corruption else 1
    q = expit(agreed[:, :size] + np.log(ratio))
    r = expit(agreed)
    counts = q if weight is None else q * weight
    if label is not None:
        known = ~np.isnan(label)
        q = np.where(known, label, q)
        r[:, :size] = np.where(known, label, r[:, :size])
        counts = q
    terms = -r * np.log(like_real) - (1 - r) * np.log(like)
    if trains_p:
        terms = terms - r * log_expit(p) - (1 - r) * log_expit(-p)
    positive, negative = split(terms, size)
    if weight is not None:
        positive = positive * weight
    losses = np.log(ITEMS) - f[:, :size]
    return (counts * losses).sum(1) / counts.sum(1) + positive.mean(1) + negative.mean(1)


@pytest.mark.parametrize("corruption", [True, False])
@pytest.mark.parametrize("known", ["nothing", "labels", "weights"])
def test_the_loss_with_a_learned_opinion(known, corruption):
    method, batch = make("deca-softmax", [one | {"corruption": corruption} for one in OPTIONS]), random_batch()
    label = weight = None
    if known == "labels":
        batch, label = with_labels(batch)
    if known == "weights":
        weight = np.random.default_rng(1).random((3, batch.num_positives))
        batch = batch._replace(columns={"weight": torch.from_numpy(weight)})
    p = logit(probability(method.partner, batch))
    wanted = expected(method, batch, p, True, corruption, label, weight)
    np.testing.assert_allclose(method.loss(batch).detach().numpy(), wanted, rtol=1e-6)


def test_a_solved_opinion_is_frozen():
    solved = make("deca-softmax", [one | {"g": "ease"} for one in OPTIONS])
    assert isinstance(solved.partner, SolvedPartner)
    batch, rng = random_batch(), np.random.default_rng(3)
    table = torch.from_numpy(rng.normal(size=(1, USERS, ITEMS)))
    solved.partner._every = table
    p = table[0][batch.users, batch.items].numpy()
    np.testing.assert_allclose(solved.loss(batch).detach().numpy(), expected(solved, batch, p, False), rtol=1e-6)


@pytest.mark.parametrize("corruption", [True, False])
def test_the_posterior_is_of_every_item_whatever_is_drawn(corruption):
    method = make("deca-softmax", [one | {"corruption": corruption, "items": 3} for one in OPTIONS])
    batch = random_batch()
    f = logits_of(method.target, [one["temperature"] for one in OPTIONS], batch.users.numpy(), batch.items.numpy())
    h, h_real = (probability(network, batch) for network in (method.h, method.h_real))
    wanted = expit(f + (np.log(h_real / h) if corruption else 0))
    found = method.belief(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("g", ["mf", "ease"])
def test_it_learns_to_rank_and_a_run_is_the_run_alone(g):
    options = {"model__scores": "cosine", "train__lr": 0.05, "method__g": g, "epochs": 6}
    method, states = train_small("mf", "deca-softmax", (3, 5), **options)
    assert len(states) == 1
    losses = [entry["loss"][0] for entry in states[-1].history]
    assert losses[-1] < losses[0] - 0.1
    alone, _ = train_small("mf", "deca-softmax", (5,), **options)
    torch.testing.assert_close(method.target.item.weight[1:], alone.target.item.weight, rtol=1e-4, atol=5e-5)
