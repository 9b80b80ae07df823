"""Weights of members: what counts is what the validation says, not the order or the scale of the members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.consensus.families import PAYS
from accord.consensus.votes import Votes, choose_weights, collect_votes, lasting_too
from accord.evaluation.evaluate import Relevant
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from helpers import CPU, csr, random_csr

USERS, ITEMS = 60, 50


def members(seed=0, share=0.1):
    """Scores that know some of the truth: two that know different halves, and one of chance."""
    rng = np.random.default_rng(seed)
    truth = rng.random((USERS, ITEMS)) < share
    noise = [rng.normal(size=truth.shape) for _ in range(3)]
    half = rng.random(ITEMS) < 0.5
    scores = [2 * truth * half + noise[0], 2 * truth * ~half + noise[1], noise[2]]
    return truth, [torch.tensor(own, dtype=torch.float32) for own in scores]


def asked(truth, seen_share=0.1):
    seen = random_csr(USERS, ITEMS, seen_share, seed=9)
    users, items = np.nonzero(truth)
    keep = ~seen.contains(users, items)
    pairs = csr(USERS, ITEMS, list(zip(users[keep], items[keep], strict=True)))
    return Relevant.of_pairs(pairs, seen)


def votes_of(scores, relevant, at_once=None):
    ranker = Ranker(lambda users: scores[0][users].unsqueeze(0), 1, relevant.seen, relevant.seen, CORRECTED, CPU)
    return collect_votes(
        [lambda users, own=own: own[users] for own in scores], replace(ranker, user_block=at_once), relevant
    )


def ndcg_by_hand(scores, relevant):
    """NDCG@20 of each user over all items, seen ones out."""
    found = []
    for user in relevant.users:
        row = scores[user].numpy().copy()
        seen = relevant.seen.items[relevant.seen.ptr[user] : relevant.seen.ptr[user + 1]]
        part = slice(*relevant.pairs.ptr[user : user + 2])
        adds = np.ones(len(relevant.pairs.items)) if relevant.gains is None else relevant.gains
        own = dict(zip(relevant.pairs.items[part], adds[part], strict=True))
        row[seen] = -np.inf
        best = [item for item in np.argsort(-row)[:20] if np.isfinite(row[item])]
        gains = sum(own[item] / np.log2(place + 2) for place, item in enumerate(best) if item in own)
        found.append(gains / sum(1 / np.log2(place + 2) for place in range(min(20, len(own)))))
    return np.array(found)


@pytest.mark.parametrize(("seen_share", "at_once", "share"), [(0.1, None, 0.7), (0.6, None, 0.1), (0.6, 7, 0.1)])
@pytest.mark.parametrize("weighed", [False, True], ids=["", "by how real each pair is"])
def test_votes_rank_as_all_items_do(seen_share, at_once, share, weighed):
    """Also where members rank what users have seen before all else, of a few users at a time, and where a list has no
    place for all that is right."""
    truth, scores = members(share=share)
    relevant = asked(truth, seen_share)
    if weighed:
        relevant = replace(relevant, gains=np.random.default_rng(1).uniform(0.1, 2, len(relevant.pairs.items)))
    seen = torch.zeros(USERS, ITEMS)
    seen[relevant.seen.users, relevant.seen.items] = 10
    scores = [own + seen for own in scores]
    votes = votes_of(scores, relevant, at_once)
    for weights in ([1, 0, 0], [2, 1, 0], [1, 1, 3]):
        total = sum(weight * own for weight, own in zip(weights, scores, strict=True))
        np.testing.assert_allclose(votes.ndcg(weights).numpy(), ndcg_by_hand(total, relevant), atol=1e-9)


def test_members_that_know_different_things_share_the_vote_and_chance_gets_none():
    truth, scores = members()
    relevant = asked(truth)
    votes = votes_of(scores, relevant)
    weights = choose_weights(votes)
    assert weights[2] < 0.1
    assert min(weights[:2]) > 0.3
    assert abs(sum(weights) - 1) < 1e-3
    assert all(weight == round(weight, 4) for weight in weights), "recipes are read and written by people"
    alone = max(votes.ndcg([int(m == one) for m in range(3)]).mean() for one in range(3))
    assert votes.ndcg(weights).mean() > 1.1 * alone
    softer = choose_weights(votes_of([scores[0], scores[1] / 3, scores[2]], relevant))
    assert softer[1] > 2 * softer[0], "who speaks softly counts for more"


def test_members_that_are_as_good_get_about_the_same_vote_and_who_hardly_helps_gets_none():
    """Not what the chance of a few users gives them; and nobody is fitted for a vote that changes nothing."""
    spreads, votes = [], []
    for seed in range(20, 24):
        rng = np.random.default_rng(seed)
        truth = rng.random((USERS, ITEMS)) < 0.1
        alike = [torch.tensor(truth + rng.normal(size=truth.shape), dtype=torch.float32) for _ in range(17)]
        spreads.append(np.std(choose_weights(votes_of(alike[:5], asked(truth)))))
        votes += choose_weights(votes_of(alike[5:], asked(truth)))
        truth, scores = members(seed)
        votes += (weights := choose_weights(votes_of(scores, asked(truth))))
        assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert np.mean(spreads) < 0.055
    assert not [vote for vote in votes if 0 < vote < 0.05]
    assert [vote for vote in votes if 0.05 < vote < 0.1], "one of many that helps a little has its vote"


def test_a_member_that_is_best_alone_is_alone():
    truth, scores = members()
    sure = torch.tensor(truth, dtype=torch.float32)
    for other in (scores[2], torch.zeros_like(sure)):  # one of chance, and one that says nothing and costs a fit
        assert choose_weights(votes_of([other, sure], asked(truth))) == [0.0, 1.0]


def test_the_choice_does_not_depend_on_the_order_and_is_the_same_again():
    truth, scores = members(3)
    relevant = asked(truth)
    weights = choose_weights(votes_of(scores, relevant))
    assert choose_weights(votes_of(scores[::-1], relevant)) == weights[::-1]
    assert choose_weights(votes_of(scores, relevant)) == weights


def test_fewer_items_than_places_and_a_user_without_a_hit():
    scores = torch.tensor([[[3.0, 1.0, 2.0]]])
    present, hits = torch.tensor([[True, True, False]]), torch.tensor([[False, True, False]])
    votes = Votes(scores, present, hits, torch.tensor([2, 1]), torch.tensor([1]))
    np.testing.assert_allclose(votes.ndcg([1.0]).numpy(), [0, 1 / np.log2(3)])


def test_a_vote_moves_to_what_lasts_while_that_costs_at_most_a_hundredth():
    truth, scores = members()
    votes = votes_of([scores[0] + scores[1], scores[1], scores[2]], asked(truth))
    given = [1.0, 0.0, 0.0]
    moved = lasting_too(votes, given, [False, True, True])
    ndcg = [float(votes.ndcg(one).mean()) for one in (given, moved, [moved[0] - 0.1, moved[1] + 0.1, 0.0])]
    assert moved[1] > 0.05
    assert moved[2] == 0, "it is no part of the best vote of those that last"
    assert sum(moved) == pytest.approx(1, abs=1e-3)
    assert ndcg[1] >= ndcg[0] / PAYS > ndcg[2]
    assert lasting_too(votes, given, [True, True, True]) == given
    assert lasting_too(votes, given, [False, False, False]) == given
