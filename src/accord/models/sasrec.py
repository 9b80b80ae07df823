"""SASRec: self-attention over a user's last items (Kang and McAuley, 2018), best trained by `softmax`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.kernels.lookups import take_rows
from accord.models.base import MOST_WIDE, Model, Setup
from accord.models.sequences import in_order_of_time, require_times
from accord.nn.layers import Embedding, Linear, RunLayer, Streams, unit

TOKENS_AT_ONCE = 2**16  # of users who are scored together
SPREAD = 2_654_435_761  # a large odd number


class Projection(RunLayer):
    """`weight` [R, in, out]: a linear layer without a bias."""

    def __init__(self, runs: int, num_in: int, num_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, num_in, num_out))

    def initialise(self, run: int, generator: torch.Generator) -> None:
        nn.init.xavier_uniform_(self.weight[run], generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x, self.weight)


class Tokens(NamedTuple):
    """Inputs of every run, end to end and padded to M, as windows of at most `length` that attention looks back in."""

    items: Tensor  # [R, M] the item that came before; the start of a history is one more item
    slots: Tensor  # [R, M] places in their windows
    cells: Tensor  # [R * M] places among the cells of all windows, [R * N * length]; the last but one of them: padding
    counts: list[int]  # of each run
    windows: int  # N, of each run
    length: int


class Block(nn.Module):
    """Self-attention and a feed-forward layer, each added to its normalised input."""

    def __init__(self, runs: int, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into, self.out = Projection(runs, dim, 3 * dim), Projection(runs, dim, dim)
        self.wide, self.narrow = Linear(runs, dim, 4 * dim), Linear(runs, 4 * dim, dim)

    def forward(self, x: Tensor, tokens: Tokens, kept: Tensor | None) -> Tensor:
        """[R, M, d] -> [R, M, d]; `kept` [2, R, M, d] is what dropout leaves."""
        runs, size, dim = x.shape
        cells = runs * tokens.windows * tokens.length
        projected = self.into(_normed(x)).view(runs * size, 3 * dim)
        laid_out = projected.new_zeros(cells + 1, 3 * dim).index_copy(0, tokens.cells, projected)[:-1]
        query, key, value = (
            laid_out.view(runs * tokens.windows, tokens.length, 3, self.heads, dim // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        seen = F.pad(seen.transpose(1, 2).reshape(cells, dim), (0, 0, 0, 1)).index_select(0, tokens.cells)
        added = self.out(seen.view(runs, size, dim))
        x = x + (added if kept is None else added * kept[0])
        added = self.narrow(F.gelu(self.wide(_normed(x))))
        result: Tensor = x + (added if kept is None else added * kept[1])
        return result


def _normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


class SASRec(Model):
    """The score of an item is the product of its vector with what attention makes of the last items of a history.

    In training each interaction is predicted from what came before it. Long histories are cut into windows, at places
    that are drawn anew in each step, so that all of a history is learned from.
    """

    name = "sasrec"
    summary = "self-attention over a user's last items: knows their order, and needs no user vector"
    batching = "users"
    reads_history = True
    user_vectors = False

    class Config(BaseConfig):
        dim: int = Field(64, ge=1, le=MOST_WIDE, description="width of the vectors of items")
        length: int = Field(100, ge=1, le=2**13, description="last items of a history that count")
        blocks: int = Field(2, ge=1, le=64, description="layers of self-attention")
        heads: int = Field(
            2, ge=1, le=64, description="attention heads of each layer; fewer if they do not divide the width"
        )
        dropout: float = Field(0.2, ge=0, lt=1, description="share of the numbers dropped after each layer in training")
        scores: Literal["product", "cosine"] = Field("cosine", description="products of the vectors, or their cosines")

    ptr: Tensor
    counts: Tensor
    keys: Tensor
    place: Tensor
    sequence: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        require_times(self.name, setup.train)
        runs, dim = setup.runs, config.dim
        heads = next(number for number in range(min(config.heads, dim), 0, -1) if dim % number == 0)
        self.item = Embedding(runs, setup.num_items + 1, dim, std=dim**-0.5)  # and the start of a history
        self.slot = Embedding(runs, config.length, dim, std=dim**-0.5)
        self.blocks = nn.ModuleList(Block(runs, dim, heads) for _ in range(config.blocks))
        self.dropout = Streams(setup.seeds, "sasrec dropout")
        self.cuts = Streams(setup.seeds, "sasrec cuts")
        train = setup.train  # its histories, in the order of time
        order = torch.from_numpy(in_order_of_time(train))
        ptr, items = torch.from_numpy(train.ptr), torch.from_numpy(train.items).long()
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order)) - ptr[:-1].repeat_interleave(ptr.diff())
        histories = {"ptr": ptr, "counts": ptr.diff(), "keys": torch.from_numpy(train.keys), "place": place}
        for name, tensor in {**histories, "sequence": items[order]}.items():
            self.register_buffer(name, tensor, persistent=False)

    @classmethod
    def reads(cls, config: Any) -> tuple[str, ...]:
        return ("time",)

    @property
    def in_order(self) -> bool:
        return True

    # --- what is known of users

    def _encoded(self, tokens: Tokens) -> Tensor:
        x = take_rows(self.item.weight, tokens.items)
        if self.config.scores == "cosine":
            x = unit(x)
        x = x * x.shape[-1] ** 0.5 + take_rows(self.slot.weight, tokens.slots)
        kept = self._kept(tokens, x) if self.training and self.config.dropout else None
        if kept is not None:
            x = x * kept[0]
        for number, block in enumerate(self.blocks):
            x = block(x, tokens, None if kept is None else kept[2 * number + 1 :])
        x = _normed(x)
        return unit(x) if self.config.scores == "cosine" else x

    def _kept(self, tokens: Tokens, x: Tensor) -> Tensor:
        """What dropout leaves, of each run drawn for its own tokens alone: [layers, R, M, d]."""
        layers, keep = 1 + 2 * len(self.blocks), 1 - self.config.dropout
        each = [layers * count * x.shape[-1] for count in tokens.counts]
        drawn = self.dropout.uniform(each, x.device).lt(keep).to(x.dtype) / keep
        kept = x.new_zeros(layers, *x.shape)
        for run, (own, count) in enumerate(zip(drawn.split(each), tokens.counts, strict=True)):
            kept[:, run, :count] = own.view(layers, count, -1)
        return kept

    def contexts(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Of pairs [R, P], the vectors of users as they were before them, [R, P, d], and all items' [R, I, d].

        Of a pair that is not in the log: as its user was before some interaction, always the same."""
        wanted = users * self.num_items + items
        found = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        other = (items * SPREAD >> 8) % self.counts[users].clamp(min=1)
        when = torch.where(self.keys[found] == wanted, self.place[found], other)
        runs = torch.arange(len(users), device=users.device).unsqueeze(1)
        keys, who = torch.unique(users + runs * self.num_users, return_inverse=True)
        tokens, first = self._windows(keys // self.num_users, keys % self.num_users, len(users))
        return take_rows(self._encoded(tokens), first[who] + when), self._items()

    def _windows(self, runs: Tensor, users: Tensor, num_runs: int) -> tuple[Tokens, Tensor]:
        """The histories of users [K] of runs [K], which rise, cut into windows; and the place of each one's first
        token among those of its run: [K]."""
        counts, length, device = self.counts[users].clamp(min=1), self.config.length, users.device
        of_run = torch.bincount(runs, minlength=num_runs)
        cuts = self.cuts.uniform(of_run.tolist(), device) if self.training else torch.zeros(len(users), device=device)
        first = torch.where(counts > length, length - (cuts * length).long().clamp(max=length - 1), length)
        windows = 1 + (counts - first).clamp(min=0).add(length - 1).div(length, rounding_mode="floor")
        sizes = torch.zeros(num_runs, 2, dtype=torch.long, device=device)
        sizes.index_add_(0, runs, torch.stack([counts, windows], 1))
        before = torch.stack([counts, windows], 1).cumsum(0) - torch.stack([counts, windows], 1)  # of all runs
        start = sizes.cumsum(0) - sizes
        begins = before - start[runs]  # within its run: its first token, its first window
        most, wide, longest = (int(n) for n in (*sizes.amax(0), counts.clamp(max=length).max()))
        total = int(counts.sum())
        owner = torch.repeat_interleave(torch.arange(len(users), device=device), counts, output_size=total)
        within = torch.arange(total, device=device) - before[owner, 0]
        late = within - first[owner]
        window = torch.where(late < 0, 0, 1 + late.div(length, rounding_mode="floor"))
        slot = torch.where(late < 0, within, late % length)
        past = self.sequence[(self.ptr[users][owner] + within - 1).clamp(min=0, max=max(0, len(self.sequence) - 1))]
        item = torch.where(within == 0, self.num_items, past)
        run = runs[owner]
        at = run * most + begins[owner, 0] + within
        cell = ((run * wide) + begins[owner, 1] + window) * longest + slot
        items = torch.full((num_runs * most,), self.num_items, device=device).index_copy(0, at, item)
        slots = torch.zeros_like(items).index_copy(0, at, slot)
        cells = torch.full_like(items, num_runs * wide * longest).index_copy(0, at, cell)
        shape = num_runs, most
        return Tokens(items.view(shape), slots.view(shape), cells, sizes[:, 0].tolist(), wide, longest), begins[:, 0]

    def _latest(self, sequence: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
        """Vectors of users [R, B] whose histories lie in a sequence of items, as they are now: [R, B, d]."""
        runs, users = counts.shape
        sizes = (counts + 1).clamp(max=self.config.length).unsqueeze(2)
        slots = torch.arange(int(sizes.max()), device=counts.device)
        number = counts.unsqueeze(2) - sizes + slots  # of the item that is an input; -1: none
        items = F.pad(sequence, (0, 1))[(starts.unsqueeze(2) + number).clamp(min=0, max=len(sequence))]
        items = torch.where((number < 0) | (slots >= sizes), self.num_items, items)
        cells = torch.arange(items.numel(), device=items.device)
        places = slots.expand_as(items).reshape(runs, -1)
        tokens = Tokens(items.view(runs, -1), places, cells, [items[0].numel()] * runs, users, len(slots))
        ends = torch.arange(users, device=items.device) * len(slots) + sizes.squeeze(2) - 1
        return take_rows(self._encoded(tokens), ends)

    def _states(self, users: Tensor) -> Tensor:
        """Vectors of users [R, B] after all of their history: [R, B, d]."""
        at_once = max(1, TOKENS_AT_ONCE // (len(users) * self.config.length))
        parts = (
            self._latest(self.sequence, self.ptr[part], self.counts[part]) for part in torch.split(users, at_once, 1)
        )
        return torch.cat(list(parts), 1)

    def _items(self) -> Tensor:
        vectors = self.item.weight[:, :-1]
        return unit(vectors) if self.config.scores == "cosine" else vectors

    # --- scores

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if self.training:
            states, vectors = self.contexts(users, items)
        else:
            every, who = torch.unique(users, return_inverse=True)
            states, vectors = take_rows(self._states(every.expand(len(users), -1)), who), self._items()
        return (states * take_rows(vectors, items)).sum(-1)

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return self._states(users), self._items()

    def score_all(self, users: Tensor) -> Tensor:
        return self._states(users.expand(len(self.seeds), -1)) @ self._items().mT

    def fold_in(self, history: Tensor) -> Tensor:
        runs = torch.zeros(len(self.seeds), 1, dtype=torch.long, device=history.device)
        return (self._latest(history, runs, runs + len(history)) @ self._items().mT).squeeze(1)

    def item_vectors(self) -> Tensor:
        return self.item.weight[0, :-1]
