"""T-CE and R-CE against their formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.data.sampling import Batch
from accord_lab.methods.denoising_losses import noise_share
from accord_lab.methods.whole_log import positive_losses
from method_cases import (
    POSITIVES,
    TRAIN,
    USERS,
    found,
    make,
    means,
    numbers,
    probability,
    random_batch,
    split,
    summed,
)  # fmt: skip


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


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_padding_is_neither_dropped_nor_counted(reduction):
    """A batch of users with padding equals the same pairs without it."""
    method, whole = make("tce", [{"drop": 0.3, "ramp": 1}]), random_batch(1)
    if reduction == "sum":
        method.rules = summed()
    shown = np.r_[0:12, POSITIVES : POSITIVES + 12]
    mask = torch.zeros(1, 2 * POSITIVES)
    mask[:, shown] = 1
    padded = Batch(whole.users, whole.items, POSITIVES, mask)
    plain = Batch(whole.users[:, shown], whole.items[:, shown], 12)
    losses = -np.log(split(probability(method.target, plain), 12)[0][0])
    negative = -np.log(1 - split(probability(method.target, plain), 12)[1][0])
    kept = np.concatenate([np.sort(losses)[: 12 - 7], negative])  # 0.3 of 24
    expected = kept.sum() if reduction == "sum" else 2 * kept.mean()
    for batch in (plain, padded):
        np.testing.assert_allclose(found(method, batch, 5), [expected], rtol=1e-9)


def test_where_one_pair_is_left_its_loss_is_what_counts():
    method, batch = make("tce", [{"drop": 0.5, "ramp": 1}]), random_batch(1, size=1)
    negative = split(probability(method.target, batch), 1)[1]
    np.testing.assert_allclose(found(method, batch, 5), 2 * -np.log(1 - negative[0]), rtol=1e-9)


def test_what_is_dropped_stays_as_it_was_asked_for_unless_a_mixture_says():
    method = make("tce", [{"drop": 0.37}])
    method.begin_epoch(0)
    assert method.drop.item() == pytest.approx(0.37)
    assert method.begin_step(3) == "step"


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


def test_the_mixture_says_what_is_dropped():
    """Half of its share of a batch, half of which is negatives, once the ramp is over; found anew before each epoch."""
    method, batch = make("tce", [{"drop": 0.4, "ramp": 10, "rate": "mixture"}] * 3), random_batch()
    shares = [noise_share(losses, TRAIN.ptr, np.ones(len(TRAIN.items))) for losses in positive_losses(method, TRAIN)]
    assert len(set(shares)) == 3
    assert 0 < min(shares) < max(shares) < 1
    fixed = make("tce", [{"drop": min(share / 2, 0.5), "ramp": 10} for share in shares])
    method.begin_epoch(0)
    fixed.begin_epoch(0)
    for step in (0, 5, 10, 100):
        np.testing.assert_allclose(found(method, batch, step), found(fixed, batch, step), rtol=1e-9)
