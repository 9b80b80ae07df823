"""Negatives in proportion to popularity, as exact as those that are all alike."""

from __future__ import annotations

import torch
from torch import Tensor

from accord.data.sampling import Negatives, TrainingPairs
from accord.random import DRAWN_AT_ONCE

WEIGHT_OF_ONE = 1000  # of an item that nobody took, where something is added to popularity: to three decimals


class PopularNegatives(Negatives):
    """On the line of items each is as long as its weight, an integer; what a user's items take is added back."""

    drawn = "popular item"

    def __init__(self, pairs: TrainingPairs, added: float) -> None:
        """`added`: what is added to the share of users who took an item, its weight."""
        self.weight = torch.bincount(pairs.items, minlength=pairs.num_items)  # [I]
        if added:
            shares = self.weight.double() / pairs.num_users
            self.weight = (WEIGHT_OF_ONE * (1 + shares / added)).round().long()
        self.ends = self.weight.cumsum(0)  # [I]
        super().__init__(pairs)

    def _lengths(self) -> tuple[int, Tensor]:
        pairs, taken = self.pairs, torch.zeros_like(self.pairs.counts)
        for users, items in zip(*(torch.split(x, DRAWN_AT_ONCE) for x in (pairs.users, pairs.items)), strict=True):
            taken.index_add_(0, users, self.weight[items])
        return int(self.weight.sum()), taken

    def _laid_out(self, users: Tensor, items: Tensor, ptr: Tensor) -> tuple[Tensor, ...]:
        """Of the pairs of a CSR: the cut positions, and the length of the user's items up to each, itself too: [n]."""
        length = self.weight[items]
        before = length.cumsum(0) - length
        within = before - before[ptr[:-1].clamp(max=len(length) - 1)][users]  # length of the user's earlier items
        starts = (self.ends - self.weight)[items]
        return users.long() * self.total + starts - within, torch.cat([within + length, length.new_zeros(1)])

    def _items(self, point: Tensor, first: Tensor, count: Tensor, laid_out: tuple[Tensor, ...]) -> Tensor:
        along = torch.where(count > 0, point + laid_out[1][first + count - 1], point)
        return torch.searchsorted(self.ends, along, right=True)
