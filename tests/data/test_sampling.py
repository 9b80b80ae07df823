"""Negatives that are exact, and epochs that hold every positive once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from accord.data import sampling
from accord.data.sampling import Batch, Negatives, Sampler, TrainingPairs
from accord.errors import InputError
from accord.kernels import cpu
from accord.kernels.lookups import entries_of
from accord.random import generators
from helpers import CPU, csr, random_csr
from samplers import make_sampler, negatives_of, pairs_of, real_pairs, rule_of, stream

MILLION = 1_000_000


def test_a_user_with_every_item_is_an_input_error():
    everything = [(1, item) for item in range(4)]
    sentence = (
        r"^1 user\(s\) have every item in train, so no negative can be drawn for them; "
        r"remove these users or add items\.$"
    )
    with pytest.raises(InputError, match=sentence):
        Negatives(pairs_of(csr(3, 4, [(0, 0), *everything])))
    with pytest.raises(InputError, match=sentence):
        Negatives(pairs_of(csr(2, 1, [(1, 0)])))  # of one item in all; the user without any is not counted


def test_users_with_all_items_but_one():
    """Each has one choice left: the first item, one in the middle, the last."""
    missing = {0: 0, 1: 4, 2: 9, 3: 5}
    matrix = csr(4, 10, [(user, item) for user, left in missing.items() for item in range(10) if item != left])
    users = torch.tensor([3, 0, 2, 1] * 50)
    for popularity in (None, 0.0, 0.3):
        drawn = negatives_of(pairs_of(matrix), popularity).draw(users, stream(5))
        assert drawn.tolist() == [missing[user] for user in users.tolist()]


def test_negatives_of_all_items_are_uniform_seen_or_not():
    matrix = random_csr(5, 20, 0.5)
    sampler = make_sampler(matrix, negatives="all")
    drawn = sampler.draw(torch.zeros(40_000, dtype=torch.long), stream(6))
    assert chisquare(np.bincount(drawn, minlength=20)).pvalue > 1e-4


@pytest.mark.parametrize("popularity", [None, 0.0, 0.3])
def test_draws_are_the_same_however_few_are_made_at_a_time(popularity, monkeypatch):
    """Whether all users' items are laid out once or those of each part anew, and how long the parts are."""
    pairs = pairs_of(random_csr(40, 30, 0.3, seed=4))
    users = torch.randint(0, 40, (200,), generator=stream(1))
    whole = negatives_of(pairs, popularity)
    expected = whole.draw(users, stream(1))
    monkeypatch.setattr(sampling, "LAID_OUT_WHOLE", len(pairs))
    assert negatives_of(pairs, popularity).whole is not None
    monkeypatch.setattr(sampling, "LAID_OUT_WHOLE", len(pairs) - 1)
    parts = negatives_of(pairs, popularity)
    assert parts.whole is None, "which would take more memory than the pairs"
    for at_once in (16 * 7, 2**24):  # less than the users, and more
        monkeypatch.setattr(sampling, "DRAWN_AT_ONCE", at_once)
        for negatives in (whole, parts):
            assert torch.equal(negatives.draw(users, stream(1)), expected)


def test_a_sampler_draws_by_the_rule_that_it_was_given():
    pairs, users = pairs_of(csr(3, 6, [(0, 1), (1, 3), (2, 4)])), torch.tensor([0, 1, 2] * 20)
    for popularity in (None, 0.0, 0.3):
        made = Sampler(pairs, generators((1, 2), "test"), 7, rule_of("unseen", popularity))
        expected = negatives_of(pairs, popularity)
        assert torch.equal(made.draw(users, stream(1)), expected.draw(users, stream(1)))


def test_pairs_are_on_the_device_with_all_that_they_carry():
    columns = {
        "weight": np.array([1.0, 2.0]), "label": np.array([0, 1], dtype=np.int8), "hour": np.array([5.0, 6.0]),
        "other": np.zeros(2),
    }  # fmt: skip
    matrix = replace(csr(2, 3, [(0, 1), (1, 2)]), items=np.array([1, 2], dtype=np.int32), columns=columns)
    carried = ("weight", "label", "hour", "place", "missing")
    here = TrainingPairs.of(matrix, CPU, carried)
    assert {name: values.tolist() for name, values in here.columns.items()} == {
        "weight": [1, 2], "label": [0, 1], "hour": [5, 6], "place": [0, 1],
    }  # fmt: skip
    kinds = {name: values.dtype for name, values in here.columns.items()}
    assert kinds["weight"] == kinds["label"] == torch.float32, "as losses are"
    assert kinds["hour"] == torch.float64
    assert here.items.dtype == torch.int32, "as in the file of a store, which is not copied"
    there = TrainingPairs.of(matrix, torch.device("meta"), carried)
    tensors = [there.ptr, there.counts, there.users, there.items, *there.columns.values()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert there.users.dtype == there.items.dtype == torch.long


def test_entries_of_some_users():
    matrix = csr(4, 9, [(0, 1), (0, 5), (2, 0), (2, 3), (2, 8), (3, 7)])
    pairs = pairs_of(matrix)
    owner, items, starts = entries_of(pairs.ptr, pairs.items, torch.tensor([2, 1, 0, 2]))
    assert owner.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
    assert items.tolist() == [0, 3, 8, 1, 5, 0, 3, 8]
    assert starts.tolist() == [0, 3, 3, 5]


WAYS = [
    {"negatives": "unseen"},
    {"negatives": "unseen", "popularity": 0.3},
    {"negatives": "unseen", "batching": "users"},
    {"negatives": "unseen", "batching": "users", "user_negatives": "cells"},
    {"negatives": "all", "batching": "users", "user_negatives": "cells"},  # cells are unseen by their nature
    {"negatives": "unseen", "batching": "users", "user_negatives": "cells", "popularity": 0.0},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_an_epoch_holds_every_positive_once_and_as_many_unseen_negatives(way):
    matrix = random_csr(30, 20, 0.25, seed=7)
    matrix = csr(33, 20, list(zip(matrix.users, matrix.items, strict=True)))  # and three users with no history
    sampler = make_sampler(matrix, seeds=(1, 2, 3), **way)
    every = Counter((int(u), int(i)) for u, i in zip(matrix.users, matrix.items, strict=True))
    orders = []
    for _ in range(2):
        batches = list(sampler.epoch())
        assert len(batches) == sampler.num_batches
        for run in range(3):
            split = [real_pairs(batch, run) for batch in batches]
            positives = [pair for part, _ in split for pair in part]
            negatives = [pair for _, part in split for pair in part]
            assert Counter(positives) == every
            assert len(negatives) == len(positives)
            assert not matrix.contains(*np.array(negatives).T).any()
            for part, drawn in split:
                assert len(part) == len(drawn)
                assert {user for user, _ in drawn} <= {user for user, _ in part}
                if way.get("user_negatives") != "cells" or "popularity" in way:
                    assert [user for user, _ in part] == [user for user, _ in drawn]
            orders.append(tuple(positives))
    assert len(set(orders)) == 6, "every run and epoch has its own order"


def test_batches_of_users_hold_all_of_a_users_positives():
    matrix = random_csr(30, 20, 0.25, seed=7)
    sampler = make_sampler(matrix, seeds=(1, 2), batch_size=8, batching="users")
    for run in range(2):
        users = [{user for user, _ in real_pairs(batch, run)[0]} for batch in list(sampler.epoch())]
        assert sum(map(len, users)) == len(set().union(*users)) == (matrix.counts > 0).sum()
        assert all(len(part) <= 8 for part in users)


def test_padding_is_masked_and_brings_no_user_in():
    matrix = csr(5, 9, [(0, 0), *((1, i) for i in range(8)), (2, 3), (3, 3), (3, 4), (4, 1)])
    sampler = make_sampler(matrix, seeds=(1, 2, 3), batch_size=2, batching="users")
    padded = 0
    for batch in sampler.epoch():
        if batch.mask is None:
            continue
        cut = batch.num_positives
        assert torch.equal(batch.mask[:, :cut], batch.mask[:, cut:]), "as many negatives as positives"
        assert set(batch.mask.unique().tolist()) <= {0, 1}
        for run in range(3):
            real = batch.mask[run].bool()
            padded += int((~real).sum())
            assert set(batch.users[run].tolist()) == set(batch.users[run][real].tolist())
    assert padded


def test_a_batch_of_users_without_history_is_all_padding():
    matrix = csr(4, 3, [(0, 1)])
    batches = list(make_sampler(matrix, batch_size=1, batching="users").epoch())
    assert len(batches) == 4
    sizes = [len(real_pairs(batch, 0)[0]) for batch in batches]
    assert sorted(sizes) == [0, 0, 0, 1]
    empty = batches[sizes.index(0)]
    assert empty.mean(torch.ones(1, 2)).tolist() == [0]
    assert empty.sum(torch.ones(1, 2)).tolist() == [0]


def test_batches_of_pairs_are_of_one_length_but_the_last():
    matrix = random_csr(30, 20, 0.25, seed=7)
    for size in (5, 7, len(matrix.items) // 2, len(matrix.items)):
        matrix = csr(30, 20, list(zip(matrix.users, matrix.items, strict=True))[: 5 * 7 * 4])
        sampler = make_sampler(matrix, (1, 2), size)
        sizes = [batch.num_positives for batch in sampler.epoch()]
        assert len(sizes) == sampler.num_batches
        assert set(sizes[:-1]) <= {size}
        assert sum(sizes) == len(matrix.items)
        assert sizes[-1] > 0


def test_batches_are_the_same_however_many_are_laid_out_at_once(monkeypatch):
    matrix = random_csr(30, 20, 0.25, seed=7)
    expected = list(make_sampler(matrix, (1, 2)).epoch())
    for at_once in (1, 20, 50):
        monkeypatch.setattr(sampling, "LAID_OUT_AT_ONCE", at_once)
        for batch, other in zip(make_sampler(matrix, (1, 2)).epoch(), expected, strict=True):
            assert torch.equal(batch.users, other.users)
            assert torch.equal(batch.items, other.items)


def test_a_batch_without_padding_has_no_mask():
    matrix = csr(4, 5, [(user, user) for user in range(4)])
    assert all(batch.mask is None for batch in make_sampler(matrix, (1, 2), 2, batching="users").epoch())


def test_one_unseen_cell_is_drawn_and_of_nobody_else():
    """User 0 has all items but one, the others none, and without a history nobody is in a batch."""
    matrix = csr(3, 4, [(0, 0), (0, 1), (0, 3)])
    for size in (3, 1):
        made = make_sampler(matrix, batch_size=size, negatives="all", batching="users", user_negatives="cells")
        drawn = [pair for batch in made.epoch() for pair in real_pairs(batch, 0)[1]]
        assert drawn == [(0, 2)] * 3


class OnCuda:
    """Pairs that say that they are on a GPU."""

    def __init__(self, pairs, users):
        self.pairs, self.num_users, self.items, self.num_items = pairs, users, SimpleNamespace(is_cuda=True), 9

    def __len__(self):
        return self.pairs


@pytest.mark.parametrize(
    ("pairs", "multiple"), [(1000, 64), (100 * 511, 64), (100 * 1000, 128), (100 * 1023, 128), (100 * 1024, 256)]
)
def test_on_a_gpu_batches_of_users_have_few_lengths(pairs, multiple):
    """Powers of two, about an eighth of a batch; a batch that is alone is as long as it is."""
    streams = generators((1, 2), "test")
    assert Sampler(OnCuda(pairs, 1000), streams, 10, "all", "users").multiple == multiple
    assert Sampler(OnCuda(pairs // 50, 20), streams, 10, "all", "users").multiple == multiple
    assert Sampler(OnCuda(pairs, 1000), streams, 1000, "all", "users").multiple == 1
    assert Sampler(OnCuda(pairs, 1000), streams, 10, "all", "pairs").multiple == 1


def test_padded_lengths_are_whole_multiples():
    matrix = random_csr(30, 20, 0.25, seed=7)
    made = make_sampler(matrix, (1, 2), batch_size=8, batching="users")
    as_long = [batch.num_positives for batch in make_sampler(matrix, (1, 2), batch_size=8, batching="users").epoch()]
    made.multiple = 16
    assert [batch.num_positives for batch in made.epoch()] == [-(-length // 16) * 16 for length in as_long]


@pytest.mark.parametrize("way", [*WAYS, {"negatives": "all"}], ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("seeds", [(5, 6, 7), (5, 6, 5, 6, 6), (5, 5)])
def test_a_run_in_a_stack_draws_what_it_draws_alone(seeds, way):
    matrix = random_csr(30, 20, 0.25, seed=7)
    stacked = make_sampler(matrix, seeds, **way)
    alone = [make_sampler(matrix, (seed,), **way) for seed in seeds]
    for _ in range(2):
        together = list(stacked.epoch())
        for run, sampler in enumerate(alone):
            assert [real_pairs(batch, run) for batch in together] == [real_pairs(b, 0) for b in sampler.epoch()]


@pytest.mark.parametrize(("seeds", "drawing"), [((5, 6, 7), [0, 1, 2]), ((5, 6, 5, 7, 6), [0, 1, 3]), ((5, 5), [0])])
def test_runs_of_one_seed_are_drawn_once(seeds, drawing):
    sampler = make_sampler(random_csr(30, 20, 0.25, seed=7), seeds)
    assert sampler.drawing == drawing
    assert [stream.initial_seed() for stream in sampler.streams] == [
        stream.initial_seed() for stream in generators([seeds[run] for run in drawing], "test")
    ]


def test_the_batch_of_runs_has_all_that_their_rows_have():
    row = torch.tensor([[1, 2], [3, 4]])
    batch = Batch(row, row + 10, 1, row.float(), {"weight": torch.tensor([[0.5], [0.25]])})
    found = batch.map(lambda tensor: tensor[[1, 0, 1]])
    assert found.users.tolist() == [[3, 4], [1, 2], [3, 4]]
    assert found.items.tolist() == [[13, 14], [11, 12], [13, 14]]
    assert found.mask.tolist() == [[3, 4], [1, 2], [3, 4]]
    assert found.columns["weight"].tolist() == [[0.25], [0.5], [0.25]]
    bare = Batch(row, row, 1).map(lambda tensor: tensor[[0]])
    assert (bare.mask, bare.columns) == (None, {})


def test_means_and_sums_of_a_batch():
    values = torch.tensor([[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], [1.0, 2.0, 99.0, 10.0, 20.0, 99.0]])
    whole = Batch(values.long(), values.long(), 3)
    assert whole.mean(values)[0] == 2 + 20
    assert whole.sum(values)[0] == 66
    mask = torch.tensor([[1.0] * 6, [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]])
    padded = Batch(values.long(), values.long(), 3, mask)
    assert padded.mean(values).tolist() == [22, 1.5 + 15]
    assert padded.sum(values).tolist() == [66, 33]
    alone = Batch(values[:1].long(), values[:1].long(), 3, torch.tensor([[1.0, 0, 0, 1, 0, 0]]))
    assert alone.mean(values[:1]).tolist() == [1 + 10]


def test_a_weight_counts_for_a_positive_and_not_for_its_negative():
    values, weights = torch.tensor([[1.0, 2.0, 10.0, 20.0]]), {"weight": torch.tensor([[3.0, 0.5]])}
    batch = Batch(values.long(), values.long(), 2, columns=weights)
    assert batch.sum(values).tolist() == [3 + 1 + 30]
    assert batch.mean(values).tolist() == [17]


def test_a_copy_of_a_batch_is_its_own_and_takes_over_another():
    def batch(number, mask=True):
        of = torch.full((1, 4), number)
        masks = of % 2 + 0.0 if mask else None
        return Batch(of, of + 1, 2, masks, columns={"weight": of[:, :2] + 0.5})

    def same(one, other):
        tensors = [(one.users, other.users), (one.items, other.items), (one.column("weight"), other.column("weight"))]
        assert all(torch.equal(*both) for both in tensors)
        assert one.num_positives == other.num_positives
        assert (one.mask is None and other.mask is None) or torch.equal(one.mask, other.mask)

    for masked in (True, False):
        original = batch(1, masked)
        copied = original.map(torch.clone)
        same(copied, original)
        copied.copy_(batch(4, masked))
        same(copied, batch(4, masked))
        same(original, batch(1, masked))


@pytest.mark.parametrize("batching", ["pairs", "users"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("popularity", [None, 0, 0.5])
@pytest.mark.parametrize("size", [1, 7])
def test_batches_without_kernels_are_the_same(batching, whole, popularity, size, monkeypatch):
    some = random_csr(30, 20, 0.3, seed=4)
    one_left = [(30, item) for item in range(20) if item != 13]  # and after this user one who has nothing
    pairs = TrainingPairs.of(csr(32, 20, [*zip(some.users, some.items, strict=True), *one_left]), CPU)
    monkeypatch.setattr(sampling, "LAID_OUT_WHOLE", 2**24 if whole else 0)

    def epoch():
        streams = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        return list(Sampler(pairs, streams, size, rule_of("unseen", popularity), batching).epoch())

    found = epoch()
    monkeypatch.setattr(cpu, "compiled", lambda: False)
    for one, other in zip(found, epoch(), strict=True):
        assert torch.equal(one.users, other.users)
        assert torch.equal(one.items, other.items)
        assert (one.mask is None and other.mask is None) or torch.equal(one.mask, other.mask)


@pytest.mark.parametrize("batching", ["pairs", "users"])
def test_a_batch_can_carry_the_places_of_its_positives(batching):
    matrix = random_csr(20, 9, 0.4, seed=5)
    pairs = TrainingPairs.of(matrix, CPU, ("place",))
    sampler = Sampler(pairs, generators((1, 2), "test"), 7, "unseen", batching=batching)
    seen = []
    for batch in sampler.epoch():
        place, size = batch.column("place"), batch.num_positives
        assert torch.equal(pairs.items[place], batch.items[:, :size])
        assert torch.equal(pairs.users[place], batch.users[:, :size])
        real = torch.ones_like(place) if batch.mask is None else batch.mask[:, :size]
        seen.append(place[0][real[0] > 0])
    assert torch.cat(seen).sort().values.tolist() == list(range(len(matrix.items)))
