"""Every stream of random numbers: a seed for each purpose, a stream for each run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

DRAWN_AT_ONCE = 2**24  # numbers: bounds the memory that a draw takes besides its result


def derive_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose of a run, so that no two streams of a run share their numbers."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") >> 1


def generators(seeds: Sequence[int], purpose: str, device: torch.device | str = "cpu") -> list[torch.Generator]:
    """One random stream for each run: what a run draws never depends on the other runs of its stack."""
    return [torch.Generator(device).manual_seed(derive_seed(seed, purpose)) for seed in seeds]


def random_numbers(size: int, stream: torch.Generator) -> Tensor:
    """Random numbers so large that what is left of dividing them is as good as uniform."""
    return torch.randint(0, 2**62, (size,), generator=stream, device=stream.device)
