"""Every stream of random numbers: by purpose, by run, and in parts."""

from __future__ import annotations

import hashlib

import pytest
import torch

from accord.random import derive_seed, drawn_part, generators, random_numbers


def test_drawn_parts():
    stream = generators([3], "test")[0]
    every = torch.rand(100, generator=generators([3], "test")[0])
    drawn = drawn_part(lambda size: torch.rand(size, generator=stream), 100, 30, 71, at_once=13)
    assert torch.equal(drawn, every[30:71])
    rest = torch.rand(3, generator=stream)
    again = generators([3], "test")[0]
    assert torch.equal(rest, torch.rand(103, generator=again)[100:]), "the stream is where one process would have it"


def test_seeds_of_two_purposes_or_runs_differ():
    found = {
        derive_seed(seed, purpose) for seed in (2019, 2020) for purpose in ("target", "h", "h real", "sampling 1/1")
    }
    assert len(found) == 8
    assert all(0 <= seed < 2**63 for seed in found), "what a generator takes"


def test_a_derived_seed_never_changes():
    """Every saved run was trained with it."""
    assert derive_seed(2019, "target") == int(hashlib.sha256(b"2019/target").hexdigest()[:16], 16) // 2


def test_a_run_draws_the_same_in_any_stack():
    alone = torch.rand(5, generator=generators([7], "test")[0])
    stack = [torch.rand(5, generator=stream) for stream in generators([3, 7], "test")]
    assert torch.equal(stack[1], alone)
    assert not torch.equal(stack[0], stack[1])
    assert not torch.equal(torch.rand(5, generator=generators([7], "other")[0]), alone)


@pytest.mark.parametrize("at_once", [1, 7, 64, 1000])
@pytest.mark.parametrize(("begin", "end"), [(0, 100), (0, 0), (99, 100), (13, 27)])
def test_a_drawn_part_is_that_part_of_the_whole(begin, end, at_once):
    whole = torch.randint(0, 1000, (100,), generator=generators([1], "test")[0])
    stream = generators([1], "test")[0]
    drawn = drawn_part(lambda size: torch.randint(0, 1000, (size,), generator=stream), 100, begin, end, at_once)
    assert torch.equal(drawn, whole[begin:end])


def test_the_last_piece_is_not_too_small():
    sizes = []

    def draw(size):
        sizes.append(size)
        return torch.zeros(size)

    assert len(drawn_part(draw, 100, 0, 100, at_once=32, last=16)) == 100
    assert sizes == [0, 32, 32, 36], "4 numbers alone would be drawn otherwise than within a long draw"


def test_random_numbers_are_large_and_of_their_stream():
    found = random_numbers(1000, generators([1], "test")[0])
    assert found.dtype == torch.int64
    assert found.min() >= 0
    assert found.max() > 2**61
    assert torch.equal(found, random_numbers(1000, generators([1], "test")[0]))
