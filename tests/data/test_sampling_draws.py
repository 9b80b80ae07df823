"""What takes many draws, or a process of its own: what is drawn, and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from accord.data import sampling
from accord.data.sampling import Sampler
from helpers import csr, random_csr, run_python
from samplers import make_sampler, negatives_of, pairs_of, real_pairs, stream

MILLION = 1_000_000


@pytest.mark.parametrize("popularity", [None, 0.0, 0.3])
def test_no_seen_item_among_a_million_negatives(popularity):
    matrix = random_csr(300, 120, 0.3)
    users = torch.randint(0, 300, (MILLION,), generator=stream(1))
    drawn = negatives_of(pairs_of(matrix), popularity).draw(users, stream(2))
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) < 120
    assert not matrix.contains(users.numpy(), drawn.numpy()).any()


@pytest.mark.parametrize("popularity", [None, 0.0, 0.3])
def test_draws_follow_the_weights(popularity):
    """Chi-square of each user's draws against the weights of what the user has not."""
    matrix = random_csr(12, 25, 0.4, seed=3)
    matrix = csr(13, 25, list(zip(matrix.users, matrix.items, strict=True)))  # and a user with no history
    taken = matrix.popularity()
    users = torch.arange(13).repeat(20_000)
    drawn = negatives_of(pairs_of(matrix), popularity).draw(users, stream(4))
    for user in range(13):
        unseen = np.setdiff1d(np.arange(25), matrix.items[matrix.ptr[user] : matrix.ptr[user + 1]])
        weights = np.ones(len(unseen)) if popularity is None else taken[unseen] + popularity * 13
        counts = np.bincount(drawn[users == user].numpy(), minlength=25)[unseen]
        assert counts.sum() == 20_000
        assert not counts[weights == 0].any()
        counts, weights = counts[weights > 0], weights[weights > 0]
        assert chisquare(counts, weights / weights.sum() * 20_000).pvalue > 1e-4, f"user {user}"


def test_cells_are_uniform_over_the_unseen_cells_of_the_batch():
    """A user with few items left gives few negatives: cells are drawn, not users."""
    matrix = csr(3, 10, [*((0, i) for i in range(9)), *((1, i) for i in range(5)), (2, 0)])
    sampler = make_sampler(matrix, batch_size=3, negatives="all", batching="users", user_negatives="cells")
    counts = Counter(pair for _ in range(1500) for batch in sampler.epoch() for pair in real_pairs(batch, 0)[1])
    assert len(counts) == 1 + 5 + 9
    assert chisquare(list(counts.values())).pvalue > 1e-4


SUMS = """
import sys, torch
from accord.data.sampling import NOT_SHARED_OUT, sums
for size in (NOT_SHARED_OUT - 1, NOT_SHARED_OUT, 300_001):
    values = torch.rand(1, size, generator=torch.Generator().manual_seed(3)) - 0.5
    found = set()
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        found.add(sums(values).item())
    assert len(found) == 1, (size, found)
"""


def test_a_long_sum_is_the_same_with_any_number_of_threads():
    """In a process of its own: the threads stay, and whoever is forked from here could not use them."""
    done = run_python("-c", SUMS)
    assert done.returncode == 0, done.stderr
    for size in (sampling.NOT_SHARED_OUT - 1, sampling.NOT_SHARED_OUT, 300_001):
        for runs in (1, 2, 3):
            assert sampling.sums(torch.ones(runs, size)).tolist() == [size] * runs


def test_runs_of_several_are_summed_as_torch_does():
    """One long sum is taken in parts; of several runs no thread shares a sum, and bits are those of torch."""
    values = torch.rand(2, 3 * sampling.NOT_SHARED_OUT, generator=stream(3)) - 0.5
    assert torch.equal(sampling.sums(values), values.sum(1))


@pytest.mark.parametrize("negatives", ["all", "unseen"])
@pytest.mark.parametrize("batching", ["pairs", "users"])
@pytest.mark.parametrize("popularity", [None, 0.3])
def test_all_is_made_on_the_device_of_the_pairs(negatives, batching, popularity):
    """What forgets to say where it is made would be on another device, as the default is one here."""
    matrix = random_csr(20, 30, 0.2)
    expected = list(make_sampler(matrix, (1, 2), 7, negatives, batching=batching, popularity=popularity).epoch())
    sampler = make_sampler(matrix, (1, 2), 7, negatives, batching=batching, popularity=popularity)
    cpu = torch.device("cpu")
    with torch.device("meta"):
        if sampler.negatives is not None:
            sampler.negatives = negatives_of(sampler.pairs, popularity)
        found = list(sampler.epoch())
        drawn = sampler.draw(sampler.pairs.users, sampler.streams[0])
    assert drawn.device == cpu
    for one, other in zip(found, expected, strict=True):
        assert one.users.device == one.items.device == cpu
        assert torch.equal(one.users, other.users)
        assert torch.equal(one.items, other.items)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_the_order_of_an_epoch_takes_no_more_than_the_items(kind, monkeypatch):
    """Four bytes a pair and run where the items take four: of a log of 10^9 pairs an epoch's order is gigabytes."""
    sampler = make_sampler(random_csr(20, 30, 0.3), (1, 2))
    pairs = replace(sampler.pairs, items=sampler.pairs.items.to(kind))
    assert len(pairs) > 62
    made, permuted = [], torch.randperm

    def recorded(*args, **options):
        made.append(permuted(*args, **options))
        return made[-1]

    monkeypatch.setattr(torch, "randperm", recorded)
    for _ in Sampler(pairs, sampler.streams, 7, "all").epoch():
        pass
    assert [order.dtype for order in made] == [kind, kind]
