"""Reasons: what adds to a score where it is a sum, what is most similar elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import accord
from accord.recommender import reasons
from helpers import small_data


@pytest.fixture(scope="module")
def ease():
    return accord.fit(small_data(), "ease", options={"model.l2": 20}).lists


def test_contributions_are_the_largest_that_add_to_the_score(ease):
    items, scores, _ = ease.of_user(4, 5)
    everything = reasons.of_user(ease, 4, items, most=1000)
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
    few = reasons.of_user(ease, 4, items)
    assert few.of_items == [said[: reasons.REASONS] for said in everything.of_items]


def test_elsewhere_the_most_similar_own_items_are_named():
    lists = accord.fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}).lists
    history, items = np.array([3, 9, 1, 12]), torch.tensor([5, 7])
    said = reasons.of_history(lists, history, items, most=2)
    assert said.by == "similarity"
    alike = lists.similar.between(items, torch.from_numpy(history))
    for number, found in enumerate(said.of_items):
        best = alike[number].argsort(descending=True)[:2]
        assert [row for row, _ in found] == [int(history[place]) for place in best if alike[number, place] > 0]


def test_without_a_history_or_items_nothing_speaks_for_anything(ease):
    assert reasons.of_history(ease, np.empty(0, dtype=np.int64), torch.tensor([1, 2])).of_items == [[], []]
    assert reasons.of_user(ease, 4, torch.empty(0, dtype=torch.long)).of_items == []
