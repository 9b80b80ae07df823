"""Lists of one run by row numbers: neighbours of a new user, barred items, reasons."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import accord
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED, PUBLISHED
from accord.recommender.top_n import REASONS, Lists, latest_last
from helpers import CPU, csr, small_data


def test_the_users_most_alike_stand_in_for_a_newcomer(simulation):
    """The owner of a history that is taken over whole is the nearest; items that nobody took have no neighbour."""
    lists = accord.fit(simulation.dataset, "mf", "normal", epochs=2).lists
    train = lists.train
    history = train.items[train.ptr[7] : train.ptr[8]]
    users, weights = lists.neighbours(torch.from_numpy(history))
    taken = [train.items[train.ptr[u] : train.ptr[u + 1]] for u in range(train.num_users)]
    shared = np.array([len(np.intersect1d(history, items)) for items in taken])
    cosine = shared / np.sqrt(np.maximum(train.counts, 1) * len(history))
    assert users[0] == 7
    assert cosine[users].min() >= np.sort(cosine)[-10]
    np.testing.assert_allclose(weights, cosine[users] / cosine[users].sum(), rtol=1e-5)
    with torch.inference_mode():
        items, scores, source = lists.of_history(history, 5)
        torch.testing.assert_close(scores, (weights @ lists.method.score_all(users)[0])[items])
    assert source == "history"
    untaken = np.flatnonzero(train.popularity() == 0)[:1]
    if len(untaken):
        assert lists.of_history(untaken, 5)[2] == "popularity"


def test_barred_items_are_left_out(simulation):
    lists = accord.fit(simulation.dataset, "mf", "normal", epochs=2).lists
    items, values, source = lists.of_user(3, 10)
    barred = torch.zeros(lists.train.num_items, dtype=torch.bool)
    barred[items[::2]] = True
    fewer, scores, _ = lists.of_user(3, 5, barred)
    assert source == "model"
    assert fewer.tolist() == items[1::2].tolist()
    assert torch.equal(scores, values[1::2])
    folded, _, _ = lists.of_history(items[:3].numpy(), 80, barred)
    assert not set(folded.tolist()) & {*items[::2].tolist(), *items[:3].tolist()}
    nothing, _, _ = lists.of_user(3, 5, ~torch.zeros_like(barred))
    assert not len(nothing)


def lists_of(scores, train, protocol=CORRECTED, **more):
    """Lists by given scores [U, I]."""
    tensor = torch.tensor(scores, dtype=torch.float32).unsqueeze(0)
    target = SimpleNamespace(scores_of=lambda history: None)
    method = SimpleNamespace(target=target, score_all=lambda users: tensor[:, users].clone())
    return Lists(method, Ranker(method.score_all, 1, train, train, protocol, CPU, **more))


TRAIN = csr(4, 5, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 3)])  # popularity 2 2 0 1 0; user 3 is cold
SCORES = [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [0, 0, 9, 9, 8], [1, 1, 1, 1, 1]]


def test_the_list_of_a_user_has_what_is_unseen_in_order():
    lists = lists_of(SCORES, TRAIN)
    items, values, source = lists.of_user(0, 2)
    assert (items.tolist(), values.tolist(), source) == ([2, 3], [3, 2], "model")
    assert lists.of_user(1, 9)[0].tolist() == [4, 3, 2], "no more than there are"
    assert lists.sources(np.array([0, 3])).tolist() == ["model", "popularity"]


def test_a_cold_user_gets_the_popular_items_or_the_models_by_the_protocol():
    items, values, source = lists_of(SCORES, TRAIN).of_user(3, 3)
    assert (set(items[:2].tolist()), items[2], source) == ({0, 1}, 3, "popularity")
    assert values.tolist() == [2, 2, 1]
    items, _, source = lists_of(SCORES, TRAIN, PUBLISHED).of_user(3, 3)
    assert (items.tolist(), source) == ([0, 1, 2], "model")


def test_users_with_the_same_items_stand_in_for_a_history():
    """Users 0 and 1 share one item of two each with the history, so both count a half."""
    lists = lists_of(SCORES, TRAIN)
    users, weights = lists.neighbours(torch.tensor([0]))
    assert users.tolist() == [0, 1]
    assert weights.tolist() == pytest.approx([0.5, 0.5])
    items, values, source = lists.of_history(np.array([0]), 3)
    assert source == "history"
    assert values.tolist() == [3, 3, 3], "their mean"
    assert 0 not in items.tolist(), "what is in the history is not recommended"


def test_a_history_that_nobody_shares_and_an_empty_one_get_the_popular_items():
    lists = lists_of(SCORES, TRAIN)
    items, values, source = lists.of_history(np.array([2]), 3)
    assert (set(items[:2].tolist()), items[2].item(), source) == ({0, 1}, 3, "popularity")
    items, values, source = lists.of_history(np.empty(0, dtype=np.int64), 2)
    assert (set(items.tolist()), values.tolist(), source) == ({0, 1}, [2, 2], "popularity")


def test_a_model_that_folds_in_is_asked_first():
    lists = lists_of(SCORES, TRAIN)
    lists.method.target.scores_of = lambda history: torch.tensor([[0.0, 1, 2, 3, 4], [0, 1, 2, 5, 4]])
    items, values, source = lists.of_history(np.array([4]), 2)
    assert (items.tolist(), values.tolist(), source) == ([3, 2], [4, 2], "history"), "the mean over members"


def test_of_an_item_that_a_history_has_twice_the_later_counts():
    assert latest_last(np.array([7, 2, 7, 9, 2])).tolist() == [7, 9, 2]
    assert latest_last(np.empty(0, dtype=np.int64)).tolist() == []


# --- reasons


@pytest.fixture(scope="module")
def ease():
    return accord.fit(small_data(), "ease", options={"model.l2": 20}).lists


def test_contributions_are_the_largest_that_add_to_the_score(ease):
    items, scores, _ = ease.of_user(4, 5)
    everything = ease.reasons(items, 4, limit=1000)
    train = ease.train
    own = train.items[train.ptr[4] : train.ptr[5]]
    weights = ease.method.target.weight
    assert everything.by == "contribution"
    for item, score, said in zip(items.tolist(), scores.tolist(), everything.of_items, strict=True):
        added = weights[own, item]
        assert dict(said) == {
            row: pytest.approx(value) for row, value in zip(own.tolist(), added.tolist(), strict=True) if value > 0
        }
        assert [value for _, value in said] == sorted((value for _, value in said), reverse=True)
        assert float(added.sum()) == pytest.approx(score, abs=1e-5)
    few = ease.reasons(items, 4)
    assert few.of_items == [said[:REASONS] for said in everything.of_items]


def test_elsewhere_the_most_similar_own_items_are_named():
    lists = accord.fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}).lists
    history, items = np.array([3, 9, 1, 12]), torch.tensor([5, 7])
    said = lists.reasons(items, history, limit=2)
    assert said.by == "similarity"
    alike = lists.similar.between(items, torch.from_numpy(history))
    for number, found in enumerate(said.of_items):
        best = alike[number].argsort(descending=True)[:2]
        assert [row for row, _ in found] == [int(history[place]) for place in best if alike[number, place] > 0]


def test_without_a_history_or_items_nothing_speaks_for_anything(ease):
    assert ease.reasons(torch.tensor([1, 2]), np.empty(0, dtype=np.int64)).of_items == [[], []]
    assert ease.reasons(torch.empty(0, dtype=torch.long), 4).of_items == []
