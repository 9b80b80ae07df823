"""The terms of DeCA's loss against the paper's formula in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.kernels import cuda
from accord.kernels.agreement import GUARD, agreement, agreement_terms, reference_terms

POSITIVES = 4


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log(x):
    return np.log(x + GUARD)


def divergence(a, b):
    return a * (log(a) - log(b)) + (1 - a) * (log(1 - a) - log(1 - b))


def logits(seed=0):
    return np.random.default_rng(seed).normal(size=(3, 2, 2 * POSITIVES))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_agreement_weighs_both_directions(alpha):
    f, p, _ = (sigmoid(x) for x in logits())
    expected = alpha * divergence(p, f) + (1 - alpha) * divergence(f, p)
    found = agreement(torch.from_numpy(f), torch.from_numpy(p), torch.tensor(alpha))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("form", [reference_terms, agreement_terms])
@pytest.mark.parametrize("dp", [True, False])
def test_terms_are_agreement_less_the_likelihood_of_what_was_observed(form, dp):
    raw = logits(1)
    f, p, h = (sigmoid(x) for x in raw)
    alpha, c = np.array([[0.2], [0.9]]), np.array([[3.0], [50.0]])
    positive = np.arange(2 * POSITIVES) < POSITIVES
    observed = log(np.where(positive, h, 1 - h))
    likely = observed * (1 - f) - c * f * ~positive if dp else observed * f - c * (1 - f) * positive
    expected = alpha * divergence(p, f) + (1 - alpha) * divergence(f, p) - likely
    given = [torch.from_numpy(x) for x in (*raw, alpha, c)]
    np.testing.assert_allclose(form(*given, POSITIVES, dp).numpy(), expected, atol=1e-6)


def test_the_kernel_is_given_what_the_plain_form_is(monkeypatch):
    given = (*(torch.from_numpy(x) for x in logits(1)), torch.tensor([[0.2], [0.9]]), torch.tensor([[3.0], [50.0]]))
    monkeypatch.setattr(cuda, "usable", lambda x: x is given[0])
    monkeypatch.setattr(cuda, "agreement_terms", lambda *told: told)
    assert agreement_terms(*given, POSITIVES, True) == (*given, POSITIVES, True, GUARD)


def test_the_plain_form_stays_where_the_logits_are():
    given = [torch.zeros(2, 2 * POSITIVES, device="meta") for _ in range(5)]
    assert reference_terms(*given, POSITIVES, True).device.type == "meta"
