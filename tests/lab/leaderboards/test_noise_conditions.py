"""Training pairs that are known to be real or noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import accord
from accord.evaluation.noise import auc
from accord_lab.leaderboards.noise_conditions import LabelledPairs, average_precision, conditions, detection
from comparisons import rated


def test_conditions_hold_the_noise_they_say(data):
    found = list(conditions(rated(data), ["uniform", "user"], [0.1, 0.4]))
    assert [(one.kind, one.rate) for one in found] == [("none", 0.0)] + [
        (kind, rate) for kind in ("uniform", "user") for rate in (0.1, 0.4)
    ]
    before = set(zip(*rows_of(data), strict=True))
    for one in found[1:]:
        assert 1 - one.labelled.real.mean() == pytest.approx(one.rate, abs=0.005)
        pairs = set(zip(one.labelled.users[one.labelled.real], one.labelled.items[one.labelled.real], strict=True))
        assert pairs == before
    clean, noisy = conditions(data, ["uniform"], [0.1])
    assert (clean.data.train.column("value") == 1).all()
    assert (noisy.kind, len(noisy.data.train)) == ("built-in", len(data.train))
    assert noisy.rate == pytest.approx(1 - len(clean.data.train) / len(data.train))


def rows_of(data):
    return data.users.rows(data.train.users).tolist(), data.items.rows(data.train.items).tolist()


def test_what_is_trained_without_noise_ranks_what_its_rivals_rank(data):
    clean, noisy = conditions(rated(data), ["uniform"], [0.4])
    trained = accord.fit(clean.data, "mf", "normal", epochs=1)
    said = clean.more(trained)[0]["injected"]
    alike = accord.fit(clean.data, "mf", "normal", epochs=1)
    alike.seen = noisy.data.csr(noisy.data.train).merge(noisy.data.csr(noisy.data.valid))
    by_hand = alike.evaluate(ks=[20]).mean()[0]["ndcg@20"]
    assert said["ndcg@20"] == {"uniform 0.4": pytest.approx(by_hand)}
    assert by_hand > trained.metrics["mean"]["ndcg@20"]  # a shorter list: why they must rank the same


def test_labels_come_from_the_values(data):
    labelled = LabelledPairs.by_value(data)
    assert np.array_equal(labelled.real, data.train.column("value") == 1)
    ratings = LabelledPairs.by_value(rated(data))
    assert np.array_equal(ratings.real, labelled.real)
    bare = replace(data, train=accord.Interactions.of(data.train.users, data.train.items))
    assert LabelledPairs.by_value(bare) is None


def test_pairs_are_judged_in_parts_as_at_once(data, monkeypatch):
    trained = accord.fit(data, "mf", "normal", epochs=1, seeds=2)
    labelled = LabelledPairs.by_value(data)
    whole = labelled.judge(trained)
    assert [one["noise"]["pairs"] for one in whole] == [len(data.train)] * 2
    monkeypatch.setattr("accord_lab.pair_scores.PAIRS_AT_ONCE", 100)
    assert [one["noise"]["auc"] for one in labelled.judge(trained)] == [one["noise"]["auc"] for one in whole]
    popular = accord.fit(data, "popularity")
    (found,) = labelled.judge(popular)
    counts = popular.train.popularity()[labelled.items]
    assert found["noise"]["auc"] == pytest.approx(auc(counts, labelled.real))
    assert "ece" not in found["noise"]  # scores are no probabilities


def test_detection_by_hand():
    scores, real = np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])
    assert average_precision(-scores, ~real) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert detection(scores, real) == {"auc": 0.75, "average_precision": pytest.approx(5 / 6), "noise_rate": 0.5}
    ties = average_precision(np.array([2.0, 2.0, 1.0]), np.array([True, False, True]))
    assert ties == pytest.approx(0.5 * 0.5 + 0.5 * 2 / 3)
