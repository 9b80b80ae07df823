"""What counts as a hit and how many there are: rules for test and validation, warm and cold users, means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.evaluation.evaluate import Evaluation, Relevant, evaluate, gains_of
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from helpers import CPU, csr, dataset


def make_ranker(scores, seen, train, protocol=CORRECTED):
    return Ranker(lambda users: scores[:, users].clone(), len(scores), seen, train, protocol, CPU)


def test_a_seen_item_is_no_hit():
    """Fewer unseen items than K: the masked items behind them must not count, though they are in the list."""
    train = csr(1, 4, [(0, 0), (0, 1), (0, 2)])
    relevant = Relevant(np.array([0]), csr(1, 4, [(0, 0), (0, 1)]), np.array([2]), train)
    found = evaluate(make_ranker(torch.zeros(1, 1, 4), train, train), relevant, [4])
    assert found.per_user["recall@4"].tolist() == [[0]]


def rules(**changed):
    return CORRECTED.model_copy(update=changed)


def test_validation_cut_from_the_test_is_removed_from_it():
    data = dataset(3, 6, train=[(0, 0), (1, 0)], valid=[(0, 1), (1, 2)], test=[(0, 1), (0, 3), (1, 2), (2, 4)])
    kept = Relevant.of_test(data, rules(test_overlap="keep"))
    assert kept.users.tolist() == [0, 1, 2]
    assert kept.counts.tolist() == [2, 1, 1]
    removed = Relevant.of_test(data, rules(test_overlap="remove"))
    assert removed.users.tolist() == [0, 2], "a user with nothing left is not counted"
    assert removed.counts.tolist() == [1, 1]
    assert removed.pairs.items.tolist() == [3, 4]
    for relevant in (kept, removed):
        assert relevant.seen.keys.tolist() == [0, 1, 6, 8], "train and validation are masked"


def test_a_stray_shared_pair_stays_in_the_test():
    """Only a validation that lies in the test as a whole was cut from it."""
    data = dataset(3, 6, train=[(0, 0)], valid=[(0, 1), (1, 5)], test=[(0, 1), (0, 3)])
    assert Relevant.of_test(data, rules(test_overlap="remove")).counts.tolist() == [2]


def test_noisy_validation_is_looked_up_in_the_noisy_test():
    data = dataset(
        3,
        6,
        train=[(0, 0)],
        valid=[(0, 1), (1, 5)],
        test=[(0, 1), (0, 3)],
        valid_clean=[(0, 1)],
        test_noisy=[(0, 1), (0, 3), (1, 5), (2, 2)],
    )
    assert Relevant.of_test(data, rules(test_overlap="remove", validation="all")).pairs.items.tolist() == [3]
    clean = Relevant.of_test(data, rules(test_overlap="keep", validation="clean"))
    assert clean.pairs.items.tolist() == [1, 3]
    assert clean.seen.keys.tolist() == [0, 1], "the same validation is masked: (1, 5) is not in the clean one"


@pytest.mark.parametrize(("rule", "counts"), [("keep", [3, 1]), ("merge", [2, 1])])
@pytest.mark.parametrize("overlap", ["keep", "remove"])
def test_duplicates_in_the_test(rule, counts, overlap):
    data = dataset(2, 5, train=[(0, 0)], test=[(0, 1), (0, 1), (0, 2), (1, 4)])
    relevant = Relevant.of_test(data, rules(duplicate_test=rule, test_overlap=overlap))
    assert relevant.counts.tolist() == counts


def test_validation_counts_users_with_history_and_masks_train_alone():
    data = dataset(3, 5, train=[(0, 0), (1, 1)], valid=[(0, 2), (0, 3), (2, 4)], valid_clean=[(0, 3)])
    relevant = Relevant.of_validation(data, rules(validation="all"))
    assert relevant.users.tolist() == [0]
    assert relevant.counts.tolist() == [2]
    assert relevant.seen.keys.tolist() == [0, 6]
    assert Relevant.of_validation(data, rules(validation="clean")).pairs.items.tolist() == [3]


def test_evaluation_knows_warm_and_cold_users():
    data = dataset(3, 5, train=[(0, 0), (1, 1)], test=[(0, 2), (2, 4)])
    relevant = Relevant.of_test(data, CORRECTED)
    found = evaluate(make_ranker(torch.zeros(1, 3, 5), relevant.seen, data.csr(data.train)), relevant, [5])
    assert found.users.tolist() == [0, 2]
    assert found.warm.tolist() == [True, False]


def test_mean_over_users_and_groups():
    per_user = {"recall@5": np.array([[0.0, 1.0, 0.5]])}
    found = Evaluation(np.arange(3), per_user, np.array([True, True, False]))
    assert found.mean() == [{"recall@5": 0.5}]
    assert found.mean(found.warm) == [{"recall@5": 0.5}]
    assert found.mean(~found.warm) == [{"recall@5": 0.5}]
    assert found.mean(np.array([True, False, False])) == [{"recall@5": 0.0}]
    assert found.mean(np.zeros(3, dtype=bool)) == [{"recall@5": 0.0}]


def test_places_beyond_the_last_item_are_misses():
    """Three items and a list of ten: precision is over ten."""
    train = csr(1, 3, [])
    relevant = Relevant.of_pairs(csr(1, 3, [(0, 1)]), train)
    found = evaluate(make_ranker(torch.tensor([[[3.0, 2.0, 1.0]]]), train, train), relevant, [10, 2, 10])
    assert list(found.per_user) == [
        f"{name}@{k}" for name in ("recall", "ndcg", "precision", "mrr", "hit_rate") for k in (2, 10)
    ]
    assert found.per_user["precision@10"].tolist() == [[0.1]]
    assert found.per_user["mrr@2"].tolist() == [[0.5]]


def test_progress_is_reported_only_for_very_many_scores(monkeypatch):
    train = csr(3, 4, [(0, 0), (1, 1), (2, 2)])
    relevant = Relevant.of_pairs(csr(3, 4, [(0, 3), (1, 3), (2, 3)]), train)
    ranker, done = make_ranker(torch.zeros(1, 3, 4), train, train), []
    evaluate(ranker, relevant, [2], done.append)
    assert done == []
    monkeypatch.setattr("accord.evaluation.evaluate.QUICK", 11)
    evaluate(ranker, relevant, [2], done.append)
    assert done == [3]


def test_with_nobody_to_evaluate_there_are_no_figures():
    train = csr(2, 3, [(0, 0)])
    found = evaluate(make_ranker(torch.zeros(2, 2, 3), train, train), Relevant.of_pairs(csr(2, 3, []), train), [2])
    assert found.per_user["recall@2"].shape == (2, 0)
    assert found.mean() == [dict.fromkeys(found.per_user, 0.0)] * 2


def test_a_summary_has_the_mean_and_deviation_over_runs_and_groups_of_users():
    values = np.array([[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 1.0, 0.0]])  # run by user; the last user is cold
    found = Evaluation(np.arange(4), {"recall@5": values}, np.array([True, True, True, False])).summary()
    assert found["mean"] == {"recall@5": pytest.approx((0.5 + 0.75) / 2)}
    assert found["std"] == {"recall@5": pytest.approx(0.25 / 2**0.5)}
    assert found["groups"]["warm"] == {"users": 3, "mean": {"recall@5": pytest.approx(0.75)}}
    assert found["groups"]["cold"] == {"users": 1, "mean": {"recall@5": pytest.approx(0.25)}}


def test_a_summary_of_one_run_without_cold_users():
    found = Evaluation(np.arange(2), {"recall@5": np.array([[0.0, 1.0]])}, np.array([True, True])).summary()
    assert found["std"] == {"recall@5": 0.0}
    assert found["groups"]["cold"] == {"users": 0, "mean": {}}


def test_pairs_that_are_surely_real_or_noise_count_as_if_the_noise_were_left_out():
    rng = np.random.default_rng(0)
    truth, real = rng.random((40, 30)) < 0.15, rng.random((40, 30)) < 0.3
    train, scores = csr(40, 30, [(user, 29) for user in range(40)]), torch.from_numpy(rng.random((1, 40, 30)))
    every, some = (
        Relevant.of_pairs(csr(40, 30, list(zip(*np.nonzero(own), strict=True))), train) for own in (truth, truth & real)
    )
    p_real = real[every.pairs.users, every.pairs.items].astype(float)
    weighed = replace(every, gains=gains_of(every.pairs.users, p_real))
    found, alone = (
        evaluate(make_ranker(scores, train, train), one, [20]).per_user["ndcg@20"].mean() for one in (weighed, some)
    )
    assert found == pytest.approx(alone, rel=1e-6)
    assert len(some.users) < len(every.users), "who has no real pair is not counted"


def test_equal_chances_change_nothing_but_who_is_likelier_to_have_a_real_pair_counts_for_more():
    users = np.array([0, 0, 1])
    np.testing.assert_allclose(gains_of(users, np.ones(3)), 1)
    few, other = gains_of(users, np.full(3, 0.1))[[0, 2]]
    assert few / other == pytest.approx((1 - 0.9**2) / 0.1)
