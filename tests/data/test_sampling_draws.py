"""What takes many draws, or a process of its own: what is drawn, and how often."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from accord.data import sampling
from accord.data.sampling import Negatives
from helpers import csr, random_csr
from samplers import make_sampler, pairs_of, real_pairs, stream

MILLION = 1_000_000


@pytest.mark.parametrize("popularity", [None, 0.0, 0.3])
def test_no_seen_item_among_a_million_negatives(popularity):
    matrix = random_csr(300, 120, 0.3)
    users = torch.randint(0, 300, (MILLION,), generator=stream(1))
    drawn = Negatives(pairs_of(matrix), popularity).draw(users, stream(2))
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
    drawn = Negatives(pairs_of(matrix), popularity).draw(users, stream(4))
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
    subprocess.run([sys.executable, "-c", SUMS], check=True)
    for size in (sampling.NOT_SHARED_OUT - 1, sampling.NOT_SHARED_OUT, 300_001):
        for runs in (1, 2, 3):
            assert sampling.sums(torch.ones(runs, size)).tolist() == [size] * runs
