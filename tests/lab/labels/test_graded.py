"""DeCA with grades: chances of grades, its loss against a formula, and binary DeCA as its smallest case."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord_lab.labels.graded import GradedDeCA
from method_cases import found, make, means, probability, random_batch, split


def log(x):
    return np.log(x + 1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def logit(p):
    return np.log(p / (1 - p))


OPTIONS = [{"c1": 3.0, "c2": 0.5, "alpha": 0.2}, {"c1": 10.0, "c2": 10.0, "alpha": 0.5}]


def grades(method, scores):
    first, steps = (getattr(method, name).detach().numpy() for name in ("first", "steps"))
    bounds = np.concatenate([first, first + np.log1p(np.exp(steps)).cumsum(1)], 1)
    above = [np.ones_like(scores), *(sigmoid(scores - bounds[:, [c]]) for c in range(bounds.shape[1]))]
    above.append(np.zeros_like(scores))
    return np.stack([above[c] - above[c + 1] for c in range(len(above) - 1)], -1)  # [R, B, G]


@pytest.mark.parametrize("phase", ["dp", "dn"])
def test_loss_with_and_without_labels(phase):
    method, batch = make(GradedDeCA, OPTIONS), random_batch(2)
    size = batch.num_positives
    f, p = (grades(method, logit(probability(net, batch))) for net in (method.target, method.partner))
    assert f.shape[-1] == 5
    np.testing.assert_allclose(f.sum(-1), 1)
    low, high = (logit(probability(net, batch)) for net in (method.h, method.h_real))
    seen = np.stack([sigmoid(low + (high - low) * c / 4) for c in range(5)], -1)
    likely = np.concatenate([log(seen[:, :size]), log(1 - seen[:, size:])], 1)
    expected, told = [], []
    label = np.resize([0.0, np.nan, 0.75, 1.0], (2, size))
    for run, given in enumerate(OPTIONS):
        mine = likely[run].copy()
        if phase == "dp":
            mine[:, -1] = np.where(np.arange(2 * size) < size, 0, -given["c1"])
        else:
            mine[:, 0] = np.where(np.arange(2 * size) < size, -given["c2"], 0)
        k = given["alpha"] * (p[run] * (log(p[run]) - log(f[run]))).sum(-1)
        k += (1 - given["alpha"]) * (f[run] * (log(f[run]) - log(p[run]))).sum(-1)
        terms = k - (f[run] * mine).sum(-1)
        expected.append(terms)
        own = terms.copy()
        for place in np.flatnonzero(~np.isnan(label[run])):
            grade = int(label[run, place] * 4)
            own[place] = -log(f[run, place, grade]) - log(p[run, place, grade]) - mine[place, grade]
        told.append(own)
    step = 0 if phase == "dp" else 1
    np.testing.assert_allclose(found(method, batch, step), means(*split(np.stack(expected), size)), rtol=1e-6)
    labelled = batch._replace(columns={"label": torch.from_numpy(label)})
    np.testing.assert_allclose(found(method, labelled, step), means(*split(np.stack(told), size)), rtol=1e-6)


def test_the_order_of_items_is_that_of_the_score_and_posteriors_are_probabilities():
    method, batch = make(GradedDeCA, OPTIONS), random_batch(2)
    with torch.no_grad():
        posterior = method.posterior(batch.users, batch.items).numpy()
        above = method.grades_of(method.target(batch.users, batch.items))[..., 3:].sum(-1).numpy()
    assert ((posterior > 0) & (posterior < 1)).all()
    scores = probability(method.target, batch)
    for run in range(2):
        assert (np.diff(above[run][np.argsort(scores[run])]) >= 0).all()
