"""DCF against its formulas, over several epochs and pair by pair."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from method_cases import TRAIN, found, log_batch, make, probability, split
from oracles import weighted

OPTIONS = [
    {"drop": 0.2, "ramp": 2, "sigma": 0.1, "relabel": 0.5},
    {"drop": 0.4, "ramp": 100, "sigma": 0.9, "relabel": 0.0},
    {"drop": 0.5, "ramp": 1, "sigma": 0.0, "relabel": 0.2},
]


def moved(method, epoch):
    """Other weights in each epoch, so that losses differ."""
    generator = torch.Generator().manual_seed(epoch)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.7)


def test_means_bounds_and_labels_over_epochs():
    train = weighted(TRAIN)
    method, size = make("dcf", OPTIONS, train=train), len(train.items)
    mean, kept = np.zeros((3, size)), np.zeros((3, size))
    dropped_differently = False
    for epoch in range(4):
        moved(method, epoch)
        method.begin_epoch(epoch)
        batch = log_batch(train, seed=epoch, weighted=True)
        f, order = probability(method.target, batch), batch.column("place").numpy()
        positive, negative = split(f, size)
        expected = []
        for run, given in enumerate(OPTIONS):
            loss, places = -np.log(positive[run]), order[run]
            t, v = epoch + 1, given["sigma"] ** 2
            mean[run, places] = (mean[run, places] * epoch + np.log(1 + loss + loss**2 / 2)) / t
            bound = v * (t + v * np.log(2 * t) / t**2) / (kept[run, places] + 1 - v)
            value = np.maximum(mean[run, places] - bound, 0)
            num = int(np.floor(given["drop"] * min(epoch / given["ramp"], 1) * 2 * size + 1e-9))
            worst = np.argsort(-value, kind="stable")[:num]
            dropped_differently |= set(worst) != set(np.argsort(-loss, kind="stable")[:num])
            turned = worst[: int(np.floor(np.float32(given["relabel"]) * num + 1e-9))]
            keep = np.setdiff1d(np.arange(size), worst)
            kept[run, places[keep]] += 1
            weights = train.columns["weight"][places]
            total = (weights * loss)[keep].sum() - (weights * np.log(1 - positive[run]))[turned].sum()
            total -= np.log(1 - negative[run]).sum()
            expected.append(2 * total / (len(keep) + len(turned) + size))
        np.testing.assert_allclose(found(method, batch, epoch), expected, rtol=1e-6)
        np.testing.assert_allclose(method.mean[:, :-1].numpy(), mean, rtol=1e-6)
        assert (method.times_kept[:, :-1].numpy() == kept).all()
    assert dropped_differently, "what counts is not the loss of this epoch alone"


def test_what_is_dropped_has_no_gradient_and_what_is_relabelled_is_pushed_down():
    method, batch = make("dcf", [{"drop": 0.25, "ramp": 1, "relabel": 0.5}]), log_batch(runs=1)
    size, logits = batch.num_positives, []
    forward = method.target.forward

    def keeping(users, items):
        logits.append(forward(users, items))
        logits[-1].retain_grad()
        return logits[-1]

    method.target.forward = keeping
    method.begin_step(1)
    method.loss(batch).sum().backward()
    slopes = np.sign(logits[0].grad[0, :size].numpy())
    order = np.argsort(-F.softplus(-logits[0][0, :size]).detach().numpy(), kind="stable")
    num = int(0.25 * 2 * size)
    turned = int(0.5 * num)
    assert (slopes[order[:turned]] == 1).all()
    assert (slopes[order[turned:num]] == 0).all()
    assert (slopes[order[num:]] == -1).all()


def test_padding_leaves_the_memory_alone():
    method, batch = make("dcf"), log_batch()
    size = batch.num_positives
    real = torch.ones(3, size)
    real[1, size // 2 :] = 0
    padded = batch._replace(mask=torch.cat([real, real], 1))
    method.loss(padded)
    there = batch.column("place")[1, : size // 2]
    others = batch.column("place")[1, size // 2 :]
    assert (method.mean[1, there] > 0).all()
    assert (method.times_kept[1, there] == 1).all()
    assert (method.mean[1, others] == 0).all()
    assert (method.times_kept[1, others] == 0).all()
    assert not set(method.state_dict()) & set(method.remembers), "in checkpoints, not in a run folder"
