"""Lists of one run by row numbers: stand-ins for a newcomer, barred items."""

from __future__ import annotations

import numpy as np
import torch

import accord


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
