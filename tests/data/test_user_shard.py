"""The users of one process: their rows, and their part of every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from accord.data.sampling import Sampler, TrainingPairs
from accord.data.user_shard import ShardSampler, UserShard, rows_of, sampler_of, shard_of
from accord.nn.ranks import SeveralRanks
from accord.random import generators
from helpers import CPU, random_csr


@pytest.mark.parametrize("batching", ["pairs", "users"])
@pytest.mark.parametrize("negatives", ["all", "unseen", "popularity"])
@pytest.mark.parametrize("size", [1, 3])
def test_parts_of_batches_are_the_batches(batching, negatives, size):
    """Every pair of the whole, positives and negatives, is in the same batch at one rank, and only there."""
    train = random_csr(31, 23, 0.3)
    whole = Sampler(TrainingPairs.of(train, CPU), generators([1, 2], "test"), 16, negatives, batching)
    parts = []
    for rank in range(size):
        part = shard_of(train, SeveralRanks(rank, size).share(31))
        pairs = TrainingPairs.of(part, CPU)
        parts.append((part, sampler_of(part, pairs, generators([1, 2], "test"), 16, negatives, batching)))
        assert isinstance(parts[-1][1], ShardSampler) == isinstance(part, UserShard) == (size > 1)
    for _ in range(2):
        epochs = [list(sampler.epoch()) for _, sampler in parts]
        for number, batch in enumerate(whole.epoch()):
            for run in range(2):
                mine = [
                    pairs_of(epoch[number], run, part.first) for epoch, (part, _) in zip(epochs, parts, strict=True)
                ]
                expected = pairs_of(batch, run, 0)
                for kind in (0, 1):
                    assert sorted(pair for pairs in mine for pair in pairs[kind]) == sorted(expected[kind])
                assert size == 1 or all(epoch[number].whole[run] == len(expected[0]) for epoch in epochs)


def pairs_of(batch: Any, run: int, first: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The positives and the negatives of a run, padding left out."""
    real = torch.ones_like(batch.users[run]) if batch.mask is None else batch.mask[run]
    both = [(int(u) + first, int(i)) for u, i in zip(batch.users[run], batch.items[run], strict=True)]
    halves = both[: batch.num_positives], both[batch.num_positives :]
    masks = real[: batch.num_positives].tolist(), real[batch.num_positives :].tolist()
    return tuple(
        [pair for pair, here in zip(half, mask, strict=True) if here] for half, mask in zip(halves, masks, strict=True)
    )  # type: ignore[return-value]


def test_rows_of_users():
    train = random_csr(10, 8, 0.4)
    part = rows_of(train, 3, 4)
    assert part.num_users == 4
    for user in range(4):
        own = train.items[train.ptr[3 + user] : train.ptr[4 + user]]
        assert np.array_equal(part.items[part.ptr[user] : part.ptr[user + 1]], own)
