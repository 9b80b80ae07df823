"""Full ranking over all items: blocks of users bounded by memory, seen items out, ties broken exactly, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple
from typing import Protocol as TypingProtocol

import numpy as np
import torch
from torch import Tensor

from accord.data.csr import Csr, IntArray
from accord.kernels.kept import Kept, writing_over
from accord.kernels.top_k import Seen, top_k, top_k_of_one
from accord.protocol import OwnRules, Protocol

BLOCK_BYTES = 128 * 2**20  # of scores held at once
KEPT_BYTES = 32 * 2**20  # on a CPU, where a block is written over the one before: what several passes find in a cache
LEAST_USERS = 64  # in a block, where that is more: a product of fewer reads the items' vectors too often
CACHE_BYTES = 3 * 2**21  # of scores that are still in a cache of a CPU when the best are picked from them
TIE_SEED = 4  # of the shuffle among equally popular items: any number would do, but it must stay the same
ScoreAll = Callable[[Tensor], Tensor]  # users [B] -> [R, B, I]
Rank = Callable[[IntArray, int], Iterator[tuple[IntArray, Tensor, Tensor]]]  # see Ranker.rank


class Scorer(TypingProtocol):
    """How a model wants to be scored."""

    logits: ClassVar[bool]
    Rules: ClassVar[type[OwnRules]]
    user_block: int | None

    def for_newcomers(self) -> Tensor | None: ...


def tie_priority(popularity: IntArray, rule: str) -> Tensor:
    """Place of each item among equal scores, lower first: by index, or by popularity and then a seeded shuffle."""
    if rule == "index":
        return torch.arange(len(popularity))
    shuffled = np.random.default_rng(TIE_SEED).permutation(len(popularity))
    order = np.lexsort((shuffled, -popularity))
    priority = np.empty(len(order), dtype=np.int64)
    priority[order] = np.arange(len(order))
    return torch.from_numpy(priority)


class _Tables(NamedTuple):
    seen_ptr: Tensor
    seen_items: Tensor
    priority: Tensor  # [I], of equal scores
    newcomers: Tensor  # [I]: what cold users get


@dataclass(frozen=True)
class Ranker:
    """Scores to ranked lists under a protocol's rules."""

    score_all: ScoreAll
    runs: int
    seen: Csr  # removed before ranking
    train: Csr
    protocol: Protocol
    device: torch.device
    scores_are_logits: bool = True
    masks_seen: bool = True
    user_block: int | None = None
    newcomers: Tensor | None = None  # [I]: what cold users get in the place of popularity

    @classmethod
    def of(
        cls,
        target: Scorer,
        score_all: ScoreAll,
        runs: int,
        seen: Csr,
        train: Csr,
        rules: Protocol,
        device: torch.device,
    ) -> Ranker:
        """A ranker of what `score_all` gives, with the target's own ways of being scored."""
        return cls(
            score_all,
            runs,
            seen,
            train,
            rules,
            device,
            target.logits,
            rules.own(target.Rules).mask_seen,
            target.user_block,
            target.for_newcomers(),
        )

    def blocks(self, users: IntArray) -> Iterator[IntArray]:
        of_user = 4 * self.runs * self.train.num_items
        size = max(1, BLOCK_BYTES // of_user)
        if self.device.type == "cpu":
            size = min(size, max(LEAST_USERS, KEPT_BYTES // of_user))
            if len(users) * of_user <= 2 * BLOCK_BYTES:
                # small enough for the cache, but large enough to be worth a call of the model; not for very many users:
                # freed small blocks fragment the C library's memory, while large ones go back to the system
                size = min(size, max(256, CACHE_BYTES // of_user))
        size = self.user_block or size
        for start in range(0, len(users), size):
            yield users[start : start + size]

    def rank(self, users: IntArray, k: int, barred: Tensor | None = None) -> Iterator[tuple[IntArray, Tensor, Tensor]]:
        """For blocks of users: the users, their k best items [R, B, k] and the scores; -inf marks no item.

        `barred` [I] are left out for all users."""
        kept = Kept()
        for block in self.blocks(users):
            yield block, *self._rank_block(block, k, barred, kept)

    @torch.inference_mode()
    def _rank_block(self, users: IntArray, k: int, barred: Tensor | None, kept: Kept) -> tuple[Tensor, Tensor]:
        """The k best items [R, B, k] of users who fit into one block, and the scores."""
        tables, rows = self.tables, torch.from_numpy(users).to(self.device)
        seen = Seen(tables.seen_ptr, tables.seen_items, rows) if self.masks_seen else None
        with writing_over(kept):
            scores = self.scores(users)
        if barred is not None:
            scores[..., barred] = -torch.inf
        values, items = top_k(scores, k, tables.priority, seen)
        return items, values

    @torch.inference_mode()
    def rank_one(self, user: int, k: int, barred: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k best items [k] of one user in the first run, and the scores; `barred` [I] are left out too."""
        tables, users = self.tables, np.array([user])
        first, last = self.seen.ptr[user : user + 2] if self.masks_seen else (0, 0)
        scores = self.scores(users)[0, 0]
        values, items = top_k_of_one(scores, k, tables.priority, tables.seen_items[first:last], barred)
        return items, values

    def scores(self, users: IntArray) -> Tensor:
        """What is ranked: [R, B, I]."""
        scores = self.score_all(torch.from_numpy(users).to(self.device))
        if self.protocol.rank_by == "probability" and self.scores_are_logits:
            # in float64: torch's float32 sigmoid gives equal logits unequal last bits at the end of a block
            scores = torch.sigmoid(scores.double()).float()
        cold = self.train.ptr[users + 1] == self.train.ptr[users]
        if self.protocol.cold_users == "popularity" and cold.any():
            scores[:, torch.from_numpy(cold).to(self.device)] = self.tables.newcomers.to(scores)
        return scores

    @cached_property
    def tables(self) -> _Tables:
        """What ranking looks up, made once: a server ranks one user at a time."""
        popularity = self.train.popularity()
        return _Tables(
            torch.from_numpy(self.seen.ptr).to(self.device),
            # int32 as in a store: one type for the kernels, and half the memory
            torch.from_numpy(self.seen.items).to(self.device, torch.int32),
            tie_priority(popularity, self.protocol.ties).to(self.device),
            (torch.from_numpy(popularity).float() if self.newcomers is None else self.newcomers).to(self.device),
        )
