"""What labels change in the methods of the literature, against formulas in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accord_lab.methods.whole_log import positive_losses
from method_cases import (
    TRAIN,
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


@pytest.mark.parametrize("step", [50, 1000])
def test_truncation_leaves_labelled_pairs_alone(step):
    options = [{"drop": 0.2, "ramp": 100}, {"drop": 0.5, "ramp": 100}]
    method, (batch, label) = make("tce", options), with_labels(random_batch(2))
    positive, negative = entropies(method, batch, label)
    expected = []
    for run, given in enumerate(options):
        open_ = np.isnan(label[run])
        num = int(np.floor(given["drop"] * min(step / given["ramp"], 1) * 2 * open_.sum() + 1e-6))
        kept = [positive[run][~open_], np.sort(positive[run][open_])[: open_.sum() - num], negative[run]]
        expected.append(2 * np.concatenate(kept).mean())
    np.testing.assert_allclose(found(method, batch, step), expected, rtol=1e-9)


def test_reweighting_believes_labels():
    options = [{"beta": 0.3}, {"beta": 2.0}]
    method, (batch, label) = make("rce", options), with_labels(random_batch(2))
    positive, negative = entropies(method, batch, label)
    beta = numbers(options, "beta")
    weight = np.where(np.isnan(label), np.exp(-beta * positive), 1)
    np.testing.assert_allclose(
        found(method, batch), means(weight * positive, np.exp(-beta * negative) * negative), rtol=1e-6
    )


def test_dcf_neither_drops_nor_relabels_what_is_known():
    given = {"drop": 0.25, "ramp": 1, "sigma": 0.1, "relabel": 0.5}
    method, (batch, label) = make("dcf", [given] * 2), with_labels(log_batch(runs=2))
    method.begin_epoch(0)
    positive, negative = entropies(method, batch, label)
    f, _ = split(probability(method.target, batch), batch.num_positives)
    expected = []
    for run in range(2):
        open_ = np.flatnonzero(np.isnan(label[run]))
        num = int(0.25 * 2 * len(open_))
        worst = open_[np.argsort(-positive[run][open_], kind="stable")[:num]]  # in a first epoch the bounds are alike
        kept, turned = np.setdiff1d(np.arange(len(label[run])), worst), worst[: int(0.5 * num)]
        total = positive[run][kept].sum() - np.log(1 - f[run][turned]).sum() + negative[run].sum()
        expected.append(2 * total / (len(kept) + len(turned) + negative.shape[1]))
    np.testing.assert_allclose(found(method, batch, 1), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["udt", "eard"])
def test_weights_by_losses_are_of_what_is_not_known(name):
    """1 for labelled pairs; those of the others are what they would be in a log of them alone."""
    train, label = labelled_log()
    rest = np.isnan(label)
    method = make(name, [{"warmup": 0}] * 2, train=train)
    method.begin_epoch(0)
    counted = replace(TRAIN, columns={"weight": rest.astype(float)})  # where the others count for nothing
    alone = make(name, [{"warmup": 0}] * 2, train=counted)
    alone.load_state_dict(method.state_dict())
    alone.begin_epoch(0)
    for own, its in zip(method.weight.numpy(), alone.weight.numpy(), strict=True):
        assert (own[~rest] == 1).all()
        np.testing.assert_allclose(own[rest], its[rest], rtol=1e-6)
    batch = log_batch(train, runs=2)
    order = batch.column("place").numpy()
    batch, drawn = with_labels(batch, label[order])
    positive, negative = entropies(method, batch, drawn)
    weight = np.take_along_axis(method.weight.numpy(), order, 1)
    np.testing.assert_allclose(found(method, batch), means(weight * positive, negative), rtol=1e-6)


def test_pld_draws_among_what_is_not_known():
    train, label = labelled_log()
    method = make("pld", [{"k": 3}] * 2, train=train)
    batch = log_batch(train, runs=2)
    order = batch.column("place").numpy()
    batch, drawn = with_labels(batch, label[order])
    chosen = method._chosen(batch).numpy()
    there = ~np.isnan(drawn)
    assert (chosen[there] == order[there]).all(), "a labelled pair keeps its place"
    assert np.isnan(label[chosen[~there]]).all(), "and is drawn into no other"
    assert (chosen[~there] != order[~there]).any()
    assert (train.users[chosen] == train.users[order]).all()


def test_the_mixture_counts_what_is_not_known():
    train, label = labelled_log()
    counted = replace(TRAIN, columns={"weight": np.isnan(label).astype(float)})
    one, other = (make("tce", [{"rate": "mixture"}], train=log) for log in (train, counted))
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(positive_losses(one, train), positive_losses(other, counted))
    one.begin_epoch(0)
    other.begin_epoch(0)
    assert one.drop == other.drop > 0
