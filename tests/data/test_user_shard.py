"""The users of one process: their rows, and their part of every batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from accord.data.sampling import Sampler, TrainingPairs
from accord.data.user_shard import ShardSampler, UserShard, rows_of, sampler_of, shard_of, stacked
from accord.nn.ranks import SeveralRanks
from accord.random import generators
from helpers import CPU, csr, random_csr
from samplers import rule_of


@pytest.mark.parametrize("batching", ["pairs", "users"])
@pytest.mark.parametrize(("negatives", "popularity"), [("all", None), ("unseen", None), ("unseen", 0.0), ("all", 0.3)])
@pytest.mark.parametrize("size", [1, 3])
def test_parts_of_batches_are_the_batches(batching, negatives, popularity, size):
    """Every pair of the whole, positives and negatives, is in the same batch at one rank, and only there."""
    train = random_csr(31, 23, 0.3)
    whole = Sampler(
        TrainingPairs.of(train, CPU), generators([1, 2], "test"), 16, rule_of(negatives, popularity), batching
    )
    parts = []
    for rank in range(size):
        part = shard_of(train, SeveralRanks(rank, size).share(31))
        pairs = TrainingPairs.of(part, CPU)
        parts.append(
            (part, sampler_of(part, pairs, generators([1, 2], "test"), 16, rule_of(negatives, popularity), batching))
        )
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


def test_a_shard_knows_what_it_must_of_the_whole():
    whole = csr(5, 4, [(0, 1), (0, 3), (2, 0), (2, 1), (2, 2), (4, 3)])
    shard = shard_of(whole, (2, 2))
    assert (shard.num_users, shard.all_users, shard.first) == (2, 5, 2)
    assert (shard.begin, shard.num_pairs) == (2, 6)
    assert shard.users.tolist() == [0, 0, 0]
    assert shard.items.tolist() == [0, 1, 2]
    assert shard.popularity().tolist() == whole.popularity().tolist() == [1, 2, 1, 2]
    assert shard.all_ptr.tolist() == whole.ptr.tolist()
    assert shard_of(whole, (0, 5)) is whole


def test_columns_are_cut_with_their_rows():
    whole = replace(csr(3, 4, [(0, 1), (1, 0), (1, 2), (2, 3)]), columns={"weight": np.array([1.0, 2.0, 3.0, 4.0])})
    assert rows_of(whole, 1, 1).columns["weight"].tolist() == [2, 3]
    assert shard_of(whole, (1, 2)).columns["weight"].tolist() == [2, 3, 4]


def test_runs_of_unequal_length_are_filled_up_with_pairs_that_do_not_count():
    def pairs(*both):
        return tuple(torch.tensor(part, dtype=torch.long) for part in zip(*both, strict=True))

    empty = (torch.zeros(0, dtype=torch.long),) * 2
    positives, negatives = [pairs((1, 5), (2, 6)), empty], [pairs((1, 7)), pairs((3, 8), (3, 9))]
    columns = [{"weight": torch.tensor([0.5, 2.0])}, {"weight": torch.zeros(0)}]
    batch = stacked(positives, negatives, [2, 0], columns)
    assert batch.num_positives == 2
    assert batch.mask.tolist() == [[1, 1, 1, 0], [0, 0, 1, 1]]
    assert batch.users.tolist() == [[1, 2, 1, 2], [3, 3, 3, 3]], "nobody is in a batch who is not"
    assert batch.items.tolist() == [[5, 6, 7, 6], [9, 9, 8, 9]]
    assert batch.column("weight").tolist() == [[0.5, 2.0], [0.0, 0.0]]
    assert batch.whole.tolist() == [2, 1], "to divide by"
    full = stacked([pairs((1, 5))], [pairs((1, 6))], [1], [{}])
    assert full.mask is None


@pytest.mark.parametrize(("negatives", "popularity"), [("all", None), ("unseen", None), ("unseen", 0.0), ("all", 0.3)])
def test_a_rank_without_a_pair_has_a_batch_that_counts_for_nothing(negatives, popularity):
    whole = csr(4, 3, [(0, 0), (1, 1)])
    shard = shard_of(whole, (2, 2))
    pairs = TrainingPairs.of(shard, CPU)
    sampler = sampler_of(shard, pairs, generators([1], "test"), 1, rule_of(negatives, popularity), "pairs")
    batches = list(sampler.epoch())
    assert len(batches) == sampler.num_batches == 2
    for batch in batches:
        assert not batch.mask.any()
        assert float(batch.mean(torch.ones(1, 2))) == 0
