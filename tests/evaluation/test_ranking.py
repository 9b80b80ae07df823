"""Full ranking: masks, blocks, cold users, and what counts as relevant."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from accord.evaluation import ranking
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker, tie_priority
from accord.protocol import CORRECTED, PUBLISHED, OwnRules
from helpers import CPU, csr, dataset, random_csr


def test_tie_priority():
    popularity = np.array([2, 5, 2, 0, 5, 2, 2, 2])
    assert tie_priority(popularity, "index").tolist() == list(range(8))
    priority = tie_priority(popularity, "popularity").numpy()
    assert sorted(priority) == list(range(8))
    ordered = np.argsort(priority)
    assert popularity[ordered].tolist() == [5, 5, 2, 2, 2, 2, 2, 0]
    assert ordered[2:7].tolist() != [0, 2, 5, 6, 7], "equally popular items are shuffled"
    assert tie_priority(popularity, "popularity").tolist() == priority.tolist(), "always the same shuffle"


def make_ranker(scores, seen, train, protocol=CORRECTED, **more):
    return Ranker(lambda users: scores[:, users].clone(), len(scores), seen, train, protocol, CPU, **more)


def ranked(ranker, users, k):
    """Users, items [R, N, k] and scores of all blocks together."""
    blocks = list(ranker.rank(users, k))
    return (
        np.concatenate([block for block, _, _ in blocks]),
        torch.cat([items for _, items, _ in blocks], 1),
        torch.cat([values for _, _, values in blocks], 1),
    )


def test_a_ranker_is_made_of_how_its_model_wants_to_be_scored():
    class Odd(OwnRules):
        @property
        def mask_seen(self):
            return False

    class Target:
        logits, Rules, user_block = False, Odd, 7

        def for_newcomers(self):
            return newcomers

    newcomers, score_all = torch.ones(4), lambda users: users
    train, seen = csr(3, 4, [(0, 1)]), csr(3, 4, [(0, 1), (2, 2)])
    device = torch.device("meta")
    found = Ranker.of(Target(), score_all, 5, seen, train, PUBLISHED, device)
    expected = Ranker(score_all, 5, seen, train, PUBLISHED, device, False, False, 7, newcomers)
    assert all(getattr(found, field.name) is getattr(expected, field.name) for field in fields(Ranker))


def test_what_is_barred_is_in_nobodys_list():
    train = csr(5, 6, [(0, 0)])
    ranker = make_ranker(torch.arange(6.0).expand(2, 5, 6), train, train)
    for _, items, values in ranker.rank(np.arange(5), 6, barred=torch.tensor([5, 3])):
        assert not {3, 5} & set(items[torch.isfinite(values)].tolist())


@pytest.mark.parametrize(
    ("users", "block_bytes", "sizes"),
    [
        (6, 240, [2, 2, 2]),  # a block of two users, who have 120 bytes each
        (3, 119, [1, 1, 1]),  # at least one
        (600, 2**20, [600]),
    ],
)
def test_how_many_users_are_scored_together(monkeypatch, users, block_bytes, sizes):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes)
    train = csr(users, 15, [(0, 0)])
    ranker = Ranker(lambda rows: rows, 2, train, train, CORRECTED, CPU)
    assert [len(block) for block in ranker.blocks(np.arange(users))] == sizes


@pytest.mark.parametrize(
    ("buffer_bytes", "device", "first"),
    [
        (120 * 100, "cpu", 100),
        (120 * 10, "cpu", 64),  # fewer are not worth a product
        (120 * 1000, "cpu", 300),  # no more than on any device
        (120 * 100, "meta", 300),
    ],
)
def test_blocks_of_very_many_users_on_a_cpu_are_small(monkeypatch, buffer_bytes, device, first):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 120 * 300)
    monkeypatch.setattr(ranking, "CPU_BLOCK_BYTES", buffer_bytes)
    train = csr(1000, 15, [(0, 0)])
    ranker = Ranker(lambda rows: rows, 2, train, train, CORRECTED, torch.device(device))
    sizes = [len(block) for block in ranker.blocks(np.arange(1000))]
    assert set(sizes[:-1]) == {first}
    assert sum(sizes) == 1000


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["published", "corrected"])
def test_seen_items_are_never_ranked(protocol):
    train = random_csr(50, 30, 0.5)
    seen = train.merge(random_csr(50, 30, 0.3, seed=1))
    scores = torch.randn(2, 50, 30, generator=torch.Generator().manual_seed(0))
    scores[:, seen.users, seen.items] += 10
    _, items, values = ranked(make_ranker(scores, seen, train, protocol), np.arange(50), 30)
    for run in range(2):
        for user in range(50):
            listed = set(items[run, user][values[run, user] > -torch.inf].tolist())
            assert listed == set(range(30)) - set(seen.items[seen.ptr[user] : seen.ptr[user + 1]])


def test_seen_items_stay_where_the_model_asks():
    train = random_csr(10, 8, 0.5)
    scores = torch.zeros(1, 10, 8)
    scores[:, train.users, train.items] = 1
    ranker = make_ranker(scores, train, train, PUBLISHED, masks_seen=False)
    _, items, values = ranked(ranker, np.arange(10), 1)
    assert torch.isfinite(values).all()
    assert train.contains(np.arange(10)[train.counts > 0], items[0, train.counts > 0, 0].numpy()).all()


@pytest.mark.parametrize("size", [1, 4 * 2 * 30 * 7])  # one user a block; seven
def test_blocks_do_not_change_the_result(monkeypatch, size):
    data = dataset(50, 30, *([(int(u), int(i)) for u, i in np.argwhere(random_kinds() == kind)] for kind in (1, 2, 3)))
    relevant = Relevant.of_test(data, CORRECTED)
    scores = torch.randint(0, 4, (2, 50, 30), generator=torch.Generator().manual_seed(3)).float()
    ranker = make_ranker(scores, relevant.seen, data.csr(data.train))
    whole = evaluate(ranker, relevant, [3, 10])
    assert len(list(ranker.blocks(relevant.users))) == 1
    monkeypatch.setattr(ranking, "BLOCK_BYTES", size)
    assert len(list(ranker.blocks(relevant.users))) > 5
    parts = evaluate(ranker, relevant, [3, 10])
    for name, values in whole.per_user.items():
        np.testing.assert_array_equal(values, parts.per_user[name])


def random_kinds():
    return np.random.default_rng(2).choice(4, size=(50, 30), p=[0.6, 0.2, 0.05, 0.15])


def test_a_model_may_say_how_many_users_are_scored_together():
    train = random_csr(10, 8, 0.5)
    sizes = []

    def score_all(users):
        sizes.append(len(users))
        return torch.zeros(1, len(users), 8)

    ranker = Ranker(score_all, 1, train, train, CORRECTED, CPU, user_block=4)
    ranked(ranker, np.arange(10), 2)
    assert sizes == [4, 4, 2]


TRAIN = [(0, 3), (1, 3), (2, 3), (0, 1), (1, 1), (2, 0)]  # popularity of items 0..4: 1 2 0 3 0; user 3 is cold


def test_cold_users_get_popular_items_when_corrected():
    train = csr(4, 5, TRAIN)
    seen = train.merge(csr(4, 5, [(3, 1)]))  # seen in validation
    scores = torch.arange(5.0).expand(2, 4, 5)
    _, items, values = ranked(make_ranker(scores, seen, train), np.arange(4), 2)
    assert items[:, 3].tolist() == [[3, 0], [3, 0]]
    assert values[0, 3].tolist() == [3, 1]
    assert items[0, 2].tolist() == [4, 2], "others are scored by the model"


def test_cold_users_are_scored_by_the_model_when_published():
    train = csr(2, 3, [(0, 0), (0, 1)])  # user 1 is cold
    scores = torch.tensor([[[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]])
    _, items, _ = ranked(make_ranker(scores, train, train, PUBLISHED), np.arange(2), 1)
    assert items[0, 1, 0] == 2
    _, items, _ = ranked(make_ranker(scores, train, train, CORRECTED), np.arange(2), 1)
    assert items[0, 1, 0] != 2


def test_cold_users_get_what_the_model_has_for_newcomers():
    train = csr(4, 5, TRAIN)
    liked = torch.tensor([0.9, 0.3, 0.0, 0.4, 0.0])
    ranker = replace(make_ranker(torch.arange(5.0).expand(2, 4, 5), train, train), newcomers=liked)
    _, items, _ = ranked(ranker, np.arange(4), 2)
    assert items[:, 3].tolist() == [[0, 3], [0, 3]]
    assert items[0, 2].tolist() == [4, 2]


def test_constant_scores_keep_the_item_order_when_published():
    """Equal logits stay equal as probabilities, wherever in the block they are."""
    train, none = csr(3, 61, [(0, 0)]), csr(3, 61, [])
    for logit in torch.linspace(-3, 3, 60):
        scores = logit.expand(1, 3, 61)
        _, items, _ = ranked(make_ranker(scores, none, train, PUBLISHED), np.arange(3), 61)
        assert (items == torch.arange(61)).all(), logit


def test_probabilities_tie_where_logits_do_not():
    train = csr(1, 3, [(0, 2)])
    scores = torch.tensor([[[30.0, 31.0, 0.0]]])
    none = csr(1, 3, [])
    assert ranked(make_ranker(scores, none, train, PUBLISHED), np.arange(1), 2)[1].tolist() == [[[0, 1]]]
    assert ranked(make_ranker(scores, none, train, CORRECTED), np.arange(1), 2)[1].tolist() == [[[1, 0]]]
    closed = make_ranker(scores, none, train, PUBLISHED, scores_are_logits=False)
    assert ranked(closed, np.arange(1), 2)[1].tolist() == [[[1, 0]]]
