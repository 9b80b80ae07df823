"""Batches and negatives. Train interactions live on the device as one user-sorted CSR; a run draws an epoch at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.columns import BATCHED
from accord.data.csr import Csr
from accord.errors import InputError
from accord.kernels.lookups import entries_of
from accord.random import DRAWN_AT_ONCE, random_numbers

LAID_OUT_WHOLE = 2**24  # training pairs up to which all users' items are laid out once, and not for each draw anew
LAID_OUT_AT_ONCE = 2**21  # pairs of all runs, as the batches in which they are used
NOT_SHARED_OUT = 2**15  # numbers: torch adds up as many with one thread
SUMMED_AT_ONCE = 2**12


def sums(values: Tensor) -> Tensor:
    """The sum of each run, [R, n] -> [R]. One long sum is taken in parts: torch's depends on the threads."""
    if len(values) > 1 or values.is_cuda or values.shape[1] < NOT_SHARED_OUT:
        return values.sum(1)
    parts = F.pad(values, (0, -values.shape[1] % SUMMED_AT_ONCE)).view(len(values), -1, SUMMED_AT_ONCE)
    return parts.sum(2).sum(1)


NO_COLUMNS: Mapping[str, Tensor] = MappingProxyType({})


class Batch(NamedTuple):
    """Pairs of every run, positives first. `mask` is 0 for padding (None: there is none)."""

    users: Tensor  # [R, P + N]
    items: Tensor  # [R, P + N]
    num_positives: int  # P
    mask: Tensor | None = None  # [R, P + N]
    columns: Mapping[str, Tensor] = NO_COLUMNS  # of the positives: [R, P] each

    def column(self, name: str) -> Tensor:
        """A column of the positives: [R, P]. NaN where the log has no number."""
        return self.columns[name]

    def weighted(self, values: Tensor) -> Tensor:
        """The loss of each pair, of a positive times its weight where the data has weights: [R, P + N]."""
        if "weight" not in self.columns:
            return values
        positive, negative = values[:, : self.num_positives], values[:, self.num_positives :]
        return torch.cat([positive * self.columns["weight"], negative], 1)

    def mean(self, values: Tensor) -> Tensor:
        """Mean over positives plus mean over negatives, of which there are as many: [R, P + N] -> [R]."""
        values = self.weighted(values)
        if self.mask is None:
            return sums(values) / self.num_positives
        return sums(values * self.mask) / self.mask[:, : self.num_positives].sum(1).clamp(min=1)

    def sum(self, values: Tensor) -> Tensor:
        values = self.weighted(values)
        return sums(values if self.mask is None else values * self.mask)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        mask = None if self.mask is None else change(self.mask)
        columns = {name: change(values) for name, values in self.columns.items()}
        return Batch(change(self.users), change(self.items), self.num_positives, mask, columns)

    def copy_(self, other: Batch) -> None:
        """Take over the pairs of a batch of the same shape."""
        self.users.copy_(other.users)
        self.items.copy_(other.items)
        if self.mask is not None and other.mask is not None:
            self.mask.copy_(other.mask)
        for name, values in self.columns.items():
            values.copy_(other.columns[name])


@dataclass(frozen=True)
class TrainingPairs:
    """The training CSR as tensors on the device. Of a store on the CPU it stays in the file, as int32."""

    ptr: Tensor  # [U + 1]
    users: Tensor  # [n]
    items: Tensor  # [n]
    counts: Tensor  # [U]
    num_items: int
    columns: Mapping[str, Tensor] = field(default_factory=dict)  # [n] each

    @classmethod
    def of(cls, csr: Csr, device: torch.device, columns: Sequence[str] = ()) -> TrainingPairs:
        """`columns`: those of the log that batches should carry; `place` is the place of a pair in the log itself."""
        ptr, counts = (torch.from_numpy(array).to(device) for array in (csr.ptr, csr.counts))
        users, items = (torch.from_numpy(array).to(device) for array in (csr.owners, csr.items))
        if device.type != "cpu":
            users, items = users.long(), items.long()
        tensors = {name: torch.from_numpy(csr.columns[name]).to(device) for name in columns if name in csr.columns}
        for name in set(BATCHED) & tensors.keys():  # they meet losses, so they are of their type
            tensors[name] = tensors[name].to(torch.get_default_dtype())
        if "place" in columns:
            tensors["place"] = torch.arange(len(items), device=device)
        return cls(ptr, users, items, counts, csr.num_items, columns=tensors)

    @property
    def num_users(self) -> int:
        return len(self.counts)

    def __len__(self) -> int:
        return len(self.items)


class Negatives:
    """Exact draws of items that a user has not in train, without rejection, all alike.
    Lay the items on a line and cut the user's items out: what is left has length `free[u]`. A point r on it lies behind
    those of the user's items whose cut position is <= r, so adding their number back gives the item."""

    drawn = "item"  # what is drawn, in an error

    def __init__(self, pairs: TrainingPairs) -> None:
        self.pairs = pairs
        self.total, taken = self._lengths()
        self.free = self.total - taken  # [U]
        full = torch.nonzero((self.free <= 0) & (pairs.counts > 0))
        if len(full):
            raise InputError(
                f"{len(full)} user(s) have every {self.drawn} in train, so no negative can be drawn for them; "
                "remove these users or add items."
            )
        self.whole = self._laid_out(pairs.users, pairs.items, pairs.ptr) if len(pairs) <= LAID_OUT_WHOLE else None

    def _lengths(self) -> tuple[int, Tensor]:
        """Of the line, and of each user's items on it: [U]."""
        return self.pairs.num_items, self.pairs.counts

    def _laid_out(self, users: Tensor, items: Tensor, ptr: Tensor) -> tuple[Tensor, ...]:
        """Of the pairs of a CSR: the cut positions, sorted over all users: [n]."""
        earlier = torch.arange(len(items), device=items.device) - ptr[users]
        return (users.long() * self.total + items - earlier,)

    def _items(self, point: Tensor, first: Tensor, count: Tensor, laid_out: tuple[Tensor, ...]) -> Tensor:
        """The items at points that lie behind `count` of the user's items, of which the first is at `first`."""
        return point + count

    def draw(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """One negative for each user row; fastest when users are sorted."""
        drawn = torch.empty(len(users), dtype=self.pairs.items.dtype, device=users.device)
        # on a CPU the numbers are the same however few are drawn at a time
        at_once = DRAWN_AT_ONCE if users.is_cuda else DRAWN_AT_ONCE // 16
        for part, place in zip(torch.split(users, at_once), torch.split(drawn, at_once), strict=True):
            place.copy_(self.at(part.long(), torch.stack([random_numbers(len(part), generator)]))[0])
        return drawn

    def at(self, users: Tensor, numbers: Tensor) -> Tensor:
        """The negatives that large random numbers stand for: [R, n], of user rows [n] or [R, n]."""
        if self.whole is not None:
            laid_out, ptr, place, free = self.whole, self.pairs.ptr, users, self.free
        else:  # only the items of these users, who are counted anew
            some, place = torch.unique(users, return_inverse=True)
            owner, items, starts = entries_of(self.pairs.ptr, self.pairs.items, some)
            ptr = torch.cat([starts, starts.new_tensor([len(owner)])])
            laid_out, free = self._laid_out(owner, items, ptr), self.free[some]
        point, first = numbers % free[place].clamp(min=1), ptr[place]
        count = torch.searchsorted(laid_out[0], place * self.total + point, right=True) - first
        return self._items(point, first, count, laid_out)


def stacked(rows: list[Tensor]) -> Tensor:
    """torch.stack, without a copy of the one row of one run."""
    return torch.stack(rows) if len(rows) > 1 else rows[0].unsqueeze(0)


class Sampler:
    """Epochs of batches for R runs, each run from one stream. Runs of one seed, as those of a grid, have the same
    batches, which are drawn once."""

    def __init__(
        self,
        pairs: TrainingPairs,
        streams: Sequence[torch.Generator],
        batch_size: int,
        negatives: Literal["all", "unseen"] | Callable[[TrainingPairs], Negatives],
        batching: Literal["pairs", "users"] = "pairs",
        user_negatives: Literal["cells", "users"] = "users",
    ) -> None:
        self.pairs, self.batch_size, self.batching = pairs, batch_size, batching
        seeds = [stream.initial_seed() for stream in streams]
        self.drawing = sorted({seeds.index(seed) for seed in seeds})  # the first run of each seed
        self.streams = [streams[run] for run in self.drawing]
        drawn = [seeds[run] for run in self.drawing]
        self.rows = [drawn.index(seed) for seed in seeds]  # which of the batches drawn is each run's
        # a cell of the user-item matrix is unseen by its nature, whatever the rule for pairs
        self.cells = batching == "users" and user_negatives == "cells" and not callable(negatives)
        draws = negatives if callable(negatives) else Negatives
        self.negatives = None if negatives == "all" and not self.cells else draws(pairs)
        # lengths to which batches of users are padded: on CUDA few, so that their steps can be recorded
        self.multiple = 1
        if batching == "users" and pairs.items.is_cuda and self.num_batches > 1:
            self.multiple = max(64, 2 ** ((len(pairs) // self.num_batches).bit_length() - 3))

    @property
    def num_batches(self) -> int:
        size = len(self.pairs) if self.batching == "pairs" else self.pairs.num_users
        return -(-size // self.batch_size)

    def draw(self, users: Tensor, generator: torch.Generator) -> Tensor:
        if self.negatives is None:
            return torch.randint(self.pairs.num_items, users.shape, generator=generator, device=users.device)
        return self.negatives.draw(users, generator)

    def epoch(self) -> Iterator[Batch]:
        batches = self._epoch_of_pairs() if self.batching == "pairs" else self._epoch_of_users()
        if len(self.streams) == len(self.rows):
            return batches
        rows = torch.tensor(self.rows, device=self.pairs.items.device)
        return (batch.map(lambda tensor: tensor.index_select(0, rows)) for batch in batches)

    def _epoch_of_pairs(self) -> Iterator[Batch]:
        pairs, device = self.pairs, self.pairs.items.device
        negative = stacked([self.draw(pairs.users, stream) for stream in self.streams])  # [R, n]
        # torch permutes small integers in the same way as large ones on a CPU
        kind = torch.int32 if pairs.items.dtype == torch.int32 and len(pairs) < 2**31 else torch.long
        order = stacked([torch.randperm(len(pairs), generator=s, device=device, dtype=kind) for s in self.streams])
        at_once = max(1, LAID_OUT_AT_ONCE // (len(order) * self.batch_size)) * self.batch_size
        whole = len(pairs) // self.batch_size * self.batch_size  # the last batch of an epoch may be a shorter one
        for start in [*range(0, whole, at_once), *([whole] if whole < len(pairs) else [])]:
            end = min(start + at_once, whole) if start < whole else len(pairs)
            size = min(self.batch_size, end - start)
            chosen = order[:, start:end].long()
            batches = [  # each [steps, R, size]
                part.long().view(len(order), -1, size).transpose(0, 1)
                for part in (pairs.users[chosen], pairs.items[chosen], negative.gather(1, chosen))
            ]
            users, items = torch.cat([batches[0], batches[0]], 2), torch.cat(batches[1:], 2)
            columns = {
                name: values[chosen].view(len(order), -1, size).transpose(0, 1)
                for name, values in pairs.columns.items()
            }
            for step in range(len(users)):
                of_step = {name: values[step] for name, values in columns.items()}
                yield Batch(users[step], items[step], size, columns=of_step)

    def _epoch_of_users(self) -> Iterator[Batch]:
        """Users in batches, with all their positives; the runs' batches differ in length and are padded."""
        pairs, device = self.pairs, self.pairs.items.device
        order = torch.stack([torch.randperm(pairs.num_users, generator=s, device=device) for s in self.streams])
        batches = torch.split(order, self.batch_size, 1)
        sizes = torch.stack([pairs.counts[users].sum(1) for users in batches]).tolist()  # [batches][R], on the host
        for users, of_runs in zip(batches, sizes, strict=True):
            yield self._pairs_of(users.sort(1).values, of_runs)

    def _pairs_of(self, users: Tensor, sizes: list[int]) -> Batch:
        """All positives of users [R, B], `sizes` of each run, and as many negatives."""
        pairs = self.pairs
        length = -(-max(1, *sizes) // self.multiple) * self.multiple
        owners, places = self._owners(users, length)
        positives = pairs.items[places].long()
        others = owners
        if self.cells:
            counts = pairs.counts[users]
            free = torch.where(counts > 0, pairs.num_items - counts, 0).cumsum(1)
            cell = self._draws(sizes, length) % free[:, -1:].clamp(min=1)
            others = users.gather(1, torch.searchsorted(free, cell, right=True).clamp(max=users.shape[1] - 1))
        numbers = self._draws(sizes, length)
        negatives = numbers % pairs.num_items if self.negatives is None else self.negatives.at(others, numbers)
        mask = None
        if any(size != length for size in sizes):
            mask = torch.arange(length, device=users.device) < pairs.counts[users].sum(1, keepdim=True)
        return Batch(
            torch.cat([owners, others], 1),
            torch.cat([positives, negatives], 1),
            length,
            None if mask is None else mask.repeat(1, 2).float(),
            columns={name: values[places] for name, values in pairs.columns.items()},
        )

    def _owners(self, users: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """The positives of users [R, B]: whose each is, and its place among all; padding repeats one: [R, length]."""
        pairs = self.pairs
        counts = pairs.counts[users]
        ends = counts.cumsum(1)
        entry = torch.minimum(torch.arange(length, device=users.device), (ends[:, -1:] - 1).clamp(min=0))
        at = torch.searchsorted(ends, entry, right=True).clamp(max=users.shape[1] - 1)
        owners = users.gather(1, at)
        within = entry - (ends - counts).gather(1, at)
        return owners, (pairs.ptr[owners] + within).clamp(max=len(pairs) - 1)

    def _draws(self, sizes: list[int], length: int) -> Tensor:
        """Random numbers, of each run as many as it needs, so that no run depends on its neighbours: [R, length]."""
        drawn = torch.zeros(len(sizes), length, dtype=torch.long, device=self.pairs.items.device)
        for row, size, stream in zip(drawn, sizes, self.streams, strict=True):
            row[:size] = random_numbers(size, stream)
        return drawn
