"""The users of one process: their pairs, counts of all others, and their part of every batch.

Several processes train one model, each with some of the users. Each draws what one process alone would draw
and keeps what belongs to its users, so that together they take the very steps that one process takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr, IntArray
from accord.data.sampling import Batch, Sampler, TrainingPairs
from accord.random import DRAWN_AT_ONCE, drawn_part, random_numbers


def rows_of(whole: Csr, first: int, size: int) -> Csr:
    """The pairs of users first, first + 1, …, who are numbered from 0 in what comes back."""
    ptr = whole.ptr[first : first + size + 1]
    columns = {name: values[ptr[0] : ptr[-1]] for name, values in whole.columns.items()}
    return Csr(ptr - ptr[0], whole.items[ptr[0] : ptr[-1]], whole.num_items, columns=columns)


def shard_of(whole: Csr, users: tuple[int, int], items: tuple[int, int] | None = None) -> Csr:
    """The pairs of some users, by the first and their number: the log itself if these are all of them."""
    if users == (0, whole.num_users):
        return whole
    rows = rows_of(whole, *users)
    return UserShard(
        rows.ptr, rows.items, rows.num_items, columns=rows.columns,
        first=users[0], whole_ptr=whole.ptr, item_counts=whole.popularity(), item_share=items,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UserShard(Csr):
    """Consecutive users of a larger log, numbered from 0, with what training must know of the whole."""

    whole_ptr: IntArray  # [all users + 1]
    item_counts: IntArray  # [I], of all users

    @property
    def all_ptr(self) -> IntArray:
        return self.whole_ptr

    @property
    def begin(self) -> int:
        """Pairs of the whole that come before."""
        return int(self.all_ptr[self.first])

    @property
    def num_pairs(self) -> int:
        """Pairs of the whole."""
        return int(self.all_ptr[-1])

    def popularity(self) -> IntArray:
        return self.item_counts


def sampler_of(train: Csr, pairs: TrainingPairs, *settings: Any, **more: Any) -> Sampler:
    """The sampler of a log, or of a shard of one."""
    if isinstance(train, UserShard):
        return ShardSampler(train, pairs, *settings, **more)
    return Sampler(pairs, *settings, **more)


Pairs = tuple[Tensor, Tensor]  # users and items, [n] each
Columns = Mapping[str, Tensor]  # [n] each


class ShardSampler(Sampler):
    """What the batches of the whole log hold of a shard's users."""

    def __init__(self, shard: UserShard, pairs: TrainingPairs, *settings: Any, **more: Any) -> None:
        self.shard = shard
        self.all_ptr = torch.from_numpy(shard.all_ptr)
        popularity = torch.from_numpy(shard.item_counts).to(pairs.items.device)
        super().__init__(replace(pairs, popularity=popularity, all_users=shard.all_users), *settings, **more)

    @property
    def num_batches(self) -> int:
        return -(-(self.shard.num_pairs if self.batching == "pairs" else self.shard.all_users) // self.batch_size)

    def _epoch_of_pairs(self) -> Iterator[Batch]:
        pairs = self.pairs
        negatives = [self._negatives(stream) for stream in self.streams]
        chosen = [self._order(stream) for stream in self.streams]
        for step in range(self.num_batches):
            size = min(self.batch_size, self.shard.num_pairs - step * self.batch_size)
            places = [order[bounds[step] : bounds[step + 1]] for order, bounds in chosen]
            positive = [(pairs.users[place], pairs.items[place].long()) for place in places]
            negative = [(pairs.users[place], drawn[place]) for place, drawn in zip(places, negatives, strict=True)]
            columns = [{name: values[place] for name, values in pairs.columns.items()} for place in places]
            yield stacked(positive, negative, [size] * len(places), columns)

    def _negatives(self, stream: torch.Generator) -> Tensor:
        """A negative for each pair of the shard: [n]."""
        users, device, num_items = self.pairs.users, stream.device, self.pairs.num_items
        span = self.shard.num_pairs, self.shard.begin, self.shard.begin + len(users)
        if self.negatives is None:
            at_once = span[0] if device.type == "cuda" else DRAWN_AT_ONCE  # as many as the whole draws at once
            return drawn_part(
                lambda size: torch.randint(0, num_items, (size,), generator=stream, device=device),
                *span,
                max(1, at_once),
            )
        numbers = drawn_part(partial(random_numbers, stream=stream), *span)
        pieces = zip(torch.split(users, DRAWN_AT_ONCE), torch.split(numbers, DRAWN_AT_ONCE), strict=True)
        return torch.cat([self.negatives.at(some, drawn.unsqueeze(0))[0] for some, drawn in pieces])

    def _order(self, stream: torch.Generator) -> tuple[Tensor, list[int]]:
        """The shard's pairs in the order of an epoch, and where each batch of the whole begins and ends among them."""
        begin, size, device = self.shard.begin, len(self.pairs), stream.device
        # torch permutes small integers in the same way as large ones on a CPU
        kind = torch.int32 if device.type == "cpu" and self.shard.num_pairs < 2**31 else torch.long
        order = torch.randperm(self.shard.num_pairs, generator=stream, device=device, dtype=kind)
        places = ((order >= begin) & (order < begin + size)).nonzero().squeeze(1)
        ends = torch.arange(self.num_batches + 1, device=device) * self.batch_size
        return order[places].long() - begin, torch.searchsorted(places, ends).tolist()

    def _epoch_of_users(self) -> Iterator[Batch]:
        orders = [torch.randperm(self.shard.all_users, generator=s, device=s.device) for s in self.streams]
        for batches in zip(*(torch.split(order, self.batch_size) for order in orders), strict=True):
            drawn = [
                self._of_users(users.cpu().sort().values, s) for users, s in zip(batches, self.streams, strict=True)
            ]
            yield stacked(*([run[kind] for run in drawn] for kind in range(4)))  # type: ignore[arg-type]

    def _of_users(self, users: Tensor, stream: torch.Generator) -> tuple[Pairs, Pairs, int, Columns]:
        """Of a batch of all users, users [B] in order: the shard's positives and negatives, all positives there are,
        and the columns of the shard's positives."""
        pairs, shard, ptr, device = self.pairs, self.shard, self.all_ptr, stream.device
        counts = ptr[users + 1] - ptr[users]
        size = int(counts.sum())
        here = (users >= shard.first) & (users < shard.first + shard.num_users)
        begin = int(counts[users < shard.first].sum())
        end = begin + int(counts[here].sum())

        local = users[here] - shard.first
        owners = torch.repeat_interleave(local, counts[here])
        entries = torch.arange(len(owners)) - (counts[here].cumsum(0) - counts[here]).repeat_interleave(counts[here])
        owners, entries = owners.to(device), entries.to(device)
        places = pairs.ptr[owners] + entries
        positives = pairs.items[places].long()
        columns = {name: values[places] for name, values in pairs.columns.items()}

        others, selected = owners, torch.arange(begin, end, device=device)
        if self.cells:  # a negative belongs to any user of the batch
            free = torch.where(counts > 0, pairs.num_items - counts, 0).cumsum(0)
            cell = random_numbers(size, stream).cpu() % free[-1].clamp(min=1)
            whose = users[torch.searchsorted(free, cell, right=True).clamp(max=len(users) - 1)].to(device)
            selected = ((whose >= shard.first) & (whose < shard.first + shard.num_users)).nonzero().squeeze(1)
            others = whose[selected] - shard.first
        numbers = random_numbers(size, stream)[selected]
        if self.negatives is None:
            return (owners, positives), (others, numbers % pairs.num_items), size, columns
        return (owners, positives), (others, self.negatives.at(others, numbers.unsqueeze(0))[0]), size, columns


def stacked(
    positives: Sequence[Pairs], negatives: Sequence[Pairs], whole: Sequence[int], columns: Sequence[Columns]
) -> Batch:
    """The pairs of each run as one batch, filled up to equal length with pairs that do not count."""
    lengths = [max(1, *(len(users) for users, _ in kind)) for kind in (positives, negatives)]
    runs = []
    for of_run in zip(positives, negatives, strict=True):
        # by repeating a pair, so that no other user is in the batch; where there is none, by any pair
        some = next(
            (pairs for pairs in of_run if len(pairs[0])), (of_run[0][0].new_zeros(1), of_run[0][1].new_zeros(1))
        )
        more = [length - len(users) for length, (users, _) in zip(lengths, of_run, strict=True)]
        both = [
            torch.cat(
                [part for pairs, n in zip(of_run, more, strict=True) for part in (pairs[c], some[c][-1:].expand(n))]
            )
            for c in (0, 1)
        ]
        real = [F.pad(torch.ones_like(users), (0, n)) for (users, _), n in zip(of_run, more, strict=True)]
        runs.append((*both, torch.cat(real)))
    users, items, mask = (torch.stack(column) for column in zip(*runs, strict=True))
    total = torch.tensor(whole, device=users.device).clamp(min=1)
    padded = {
        name: torch.stack([F.pad(of_run[name], (0, lengths[0] - len(of_run[name]))) for of_run in columns])
        for name in columns[0]
    }
    return Batch(users, items, lengths[0], None if mask.all() else mask.float(), total, padded)
