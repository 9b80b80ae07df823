"""Every stream of random numbers: by purpose and by run."""

from __future__ import annotations

import hashlib

import torch

from accord.random import derive_seed, generators, random_numbers


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


def test_random_numbers_are_large_and_of_their_stream():
    found = random_numbers(1000, generators([1], "test")[0])
    assert found.dtype == torch.int64
    assert found.min() >= 0
    assert found.max() > 2**61
    assert torch.equal(found, random_numbers(1000, generators([1], "test")[0]))
