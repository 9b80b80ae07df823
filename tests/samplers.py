"""Samplers of small logs, and what a batch of theirs holds."""

from __future__ import annotations

from functools import partial

import torch

from accord.data.sampling import Batch, Negatives, Sampler, TrainingPairs
from accord.random import generators
from accord_lab.methods.popular_negatives import PopularNegatives
from helpers import CPU


def pairs_of(matrix):
    return TrainingPairs.of(matrix, CPU)


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def rule_of(negatives="unseen", popularity=None):
    """What a sampler is given to draw negatives by."""
    return negatives if popularity is None else partial(PopularNegatives, added=popularity)


def negatives_of(pairs, popularity=None):
    return Negatives(pairs) if popularity is None else PopularNegatives(pairs, popularity)


def make_sampler(matrix, seeds=(1,), batch_size=7, negatives="unseen", popularity=None, **more):
    return Sampler(pairs_of(matrix), generators(seeds, "test"), batch_size, rule_of(negatives, popularity), **more)


def real_pairs(batch: Batch, run: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Positives and negatives of one run, padding left out."""
    mask = torch.ones_like(batch.users) if batch.mask is None else batch.mask
    pairs = [(int(u), int(i)) for u, i in zip(batch.users[run], batch.items[run], strict=True)]
    keep = mask[run].bool().tolist()
    cut = batch.num_positives
    return (
        [pair for pair, real in zip(pairs[:cut], keep[:cut], strict=True) if real],
        [pair for pair, real in zip(pairs[cut:], keep[cut:], strict=True) if real],
    )
