"""Batches and negatives. Train interactions live on the device as one user-sorted CSR; a run draws an epoch at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from accord.data.interactions import Csr
from accord.errors import InputError


class Batch(NamedTuple):
    """Pairs of every run, positives first. `mask` is 0 for padding (None: there is none)."""

    users: Tensor  # [R, P + N]
    items: Tensor  # [R, P + N]
    num_positives: int  # P
    mask: Tensor | None = None  # [R, P + N]

    def mean(self, values: Tensor) -> Tensor:
        """Mean over positives plus mean over negatives: [R, P + N] -> [R]."""
        cut = self.num_positives
        if self.mask is None:
            return values[:, :cut].mean(1) + values[:, cut:].mean(1)
        counts = self.mask[:, :cut].sum(1).clamp(min=1)  # as many negatives as positives
        return (values * self.mask).sum(1) / counts

    def sum(self, values: Tensor) -> Tensor:
        """Sum over positives and negatives: [R, P + N] -> [R]."""
        return (values if self.mask is None else values * self.mask).sum(1)


@dataclass(frozen=True)
class TrainingPairs:
    """The training CSR as tensors on the device."""

    ptr: Tensor  # [U + 1]
    users: Tensor  # [n]
    items: Tensor  # [n]
    counts: Tensor  # [U]
    num_items: int

    @classmethod
    def of(cls, csr: Csr, device: torch.device) -> TrainingPairs:
        ptr, users, items, counts = (
            torch.from_numpy(array).to(device) for array in (csr.ptr, csr.users, csr.items, csr.counts)
        )
        return cls(ptr, users, items, counts, csr.num_items)

    @property
    def num_users(self) -> int:
        return len(self.counts)

    def __len__(self) -> int:
        return len(self.items)


def entries_of(ptr: Tensor, items: Tensor, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The CSR rows of some users, end to end: each entry's place in `users`, its item, and each row's start."""
    counts = ptr[users + 1] - ptr[users]
    starts = counts.cumsum(0) - counts
    owner = torch.repeat_interleave(torch.arange(len(users), device=users.device), counts)
    within = torch.arange(len(owner), device=users.device) - starts[owner]
    return owner, items[ptr[users][owner] + within], starts


class Negatives:
    """Exact draws of items that a user has not in train, in proportion to integer weights, without rejection.

    Lay the items on a line, each as long as its weight, and cut a user's own items out: what is left has length
    `free[u]`. A point r on it lies behind those of the user's items whose cut position is <= r, so adding their
    length back gives the place on the whole line. With all weights 1 the place is the item itself.
    """

    def __init__(self, pairs: TrainingPairs, by_popularity: bool = False) -> None:
        device, num_items = pairs.items.device, pairs.num_items
        weight = torch.ones(num_items, dtype=torch.long, device=device)
        if by_popularity:
            weight = torch.bincount(pairs.items, minlength=num_items)
        self.ends = weight.cumsum(0) if by_popularity else None  # [I]
        self.total = int(weight.sum())
        self.ptr = pairs.ptr
        own = weight[pairs.items]  # [n]
        before = own.cumsum(0) - own
        within = (
            before - before[pairs.ptr[:-1].clamp(max=len(own) - 1)][pairs.users]
        )  # length of the user's earlier items
        starts = (weight.cumsum(0) - weight)[pairs.items]
        self.cuts = pairs.users * self.total + starts - within  # [n], sorted
        self.removed = torch.cat([within, within.new_zeros(1)])
        self.own = torch.cat([own, own.new_zeros(1)])
        mass = torch.zeros(pairs.num_users, dtype=torch.long, device=device).index_add_(0, pairs.users, own)
        self.free = self.total - mass  # [U]
        full = torch.nonzero((self.free <= 0) & (pairs.counts > 0))
        if len(full):
            kind = "popular item" if by_popularity else "item"
            raise InputError(
                f"{len(full)} user(s) have every {kind} in train, so no negative can be drawn for them; "
                "remove these users or add items."
            )

    def draw(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """One negative for each user row; fastest when users are sorted."""
        big = torch.randint(0, 2**62, users.shape, generator=generator, device=users.device)
        point = big % self.free[users]
        count = torch.searchsorted(self.cuts, users * self.total + point, right=True) - self.ptr[users]
        last = self.ptr[users] + count - 1
        skipped = torch.where(count > 0, self.removed[last] + self.own[last], 0)
        place = point + skipped
        return place if self.ends is None else torch.searchsorted(self.ends, place, right=True)


class Sampler:
    """Epochs of batches for R runs, each run from its own stream."""

    def __init__(
        self,
        pairs: TrainingPairs,
        streams: Sequence[torch.Generator],
        batch_size: int,
        negatives: Literal["all", "unseen", "popularity"],
        batching: Literal["pairs", "users"] = "pairs",
        user_negatives: Literal["cells", "users"] = "users",
    ) -> None:
        self.pairs, self.streams, self.batch_size, self.batching = pairs, streams, batch_size, batching
        # a cell of the user-item matrix is unseen by its nature, whatever the rule for pairs
        self.cells = batching == "users" and user_negatives == "cells" and negatives != "popularity"
        uniform = negatives == "all" and not self.cells
        self.negatives = None if uniform else Negatives(pairs, by_popularity=negatives == "popularity")

    @property
    def num_batches(self) -> int:
        """Batches in an epoch."""
        size = len(self.pairs) if self.batching == "pairs" else self.pairs.num_users
        return -(-size // self.batch_size)

    def draw(self, users: Tensor, generator: torch.Generator) -> Tensor:
        if self.negatives is None:
            return torch.randint(0, self.pairs.num_items, users.shape, generator=generator, device=users.device)
        return self.negatives.draw(users, generator)

    def epoch(self) -> Iterator[Batch]:
        return self._epoch_of_pairs() if self.batching == "pairs" else self._epoch_of_users()

    def _epoch_of_pairs(self) -> Iterator[Batch]:
        pairs, device = self.pairs, self.pairs.items.device
        orders, negatives = [], []
        for stream in self.streams:
            negative = self.draw(pairs.users, stream)
            order = torch.randperm(len(pairs), generator=stream, device=device)
            orders.append(order)
            negatives.append(negative[order])
        order, negative = torch.stack(orders), torch.stack(negatives)  # [R, n]
        for start in range(0, len(pairs), self.batch_size):
            chosen = order[:, start : start + self.batch_size]
            users = pairs.users[chosen]
            items = torch.cat([pairs.items[chosen], negative[:, start : start + self.batch_size]], 1)
            yield Batch(torch.cat([users, users], 1), items, chosen.shape[1])

    def _epoch_of_users(self) -> Iterator[Batch]:
        """Users in batches, with all their positives; the runs' batches differ in length and are padded."""
        pairs, device = self.pairs, self.pairs.items.device
        orders = [torch.randperm(pairs.num_users, generator=stream, device=device) for stream in self.streams]
        for start in range(0, pairs.num_users, self.batch_size):
            rows = []
            for order, stream in zip(orders, self.streams, strict=True):
                users = order[start : start + self.batch_size].sort().values
                users = users[pairs.counts[users] > 0]
                rows.append(self._pairs_of(users, stream))
            yield _pad(rows)

    def _pairs_of(self, users: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Positives of the users and as many negatives: users, items, users, items."""
        pairs = self.pairs
        counts = pairs.counts[users]
        owners = torch.repeat_interleave(users, counts)
        within = torch.arange(len(owners), device=users.device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        positives = pairs.items[pairs.ptr[owners] + within]
        others = owners
        if self.cells and len(users):
            free = (pairs.num_items - counts).cumsum(0)
            point = torch.randint(0, 2**62, owners.shape, generator=stream, device=users.device) % free[-1]
            others = users[torch.searchsorted(free, point, right=True)]
        return owners, positives, others, self.draw(others, stream)


def _pad(rows: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> Batch:
    length = max(1, *(len(row[0]) for row in rows))
    users, items, masks = [], [], []
    for owners, positives, others, negatives in rows:
        size = len(owners)
        users += [_fill(part, length) for part in (owners, others)]
        items += [_fill(part, length) for part in (positives, negatives)]
        masks.append((torch.arange(2 * length, device=owners.device) % length < size).float())
    runs = len(rows)
    padded = any(len(row[0]) != length for row in rows)
    return Batch(
        torch.stack(users).view(runs, -1),
        torch.stack(items).view(runs, -1),
        length,
        torch.stack(masks) if padded else None,
    )


def _fill(part: Tensor, length: int) -> Tensor:
    """Repeat the first entry (row 0 if there is none), so that the batch's users stay what they are."""
    first = part[:1] if len(part) else part.new_zeros(1)
    return torch.cat([part, first.expand(length - len(part))])
