"""Full ranking over all items: users in blocks bounded by memory, seen items removed, ties broken exactly."""

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
from accord.kernels import cpu
from accord.kernels.top_k import Seen, top_k
from accord.protocol import OwnRules, Protocol

BLOCK_BYTES = 128 * 2**20  # scores in memory at once
CPU_BLOCK_BYTES = 32 * 2**20  # the same on a CPU: fits a cache, and the C library reuses the memory for the next block
LEAST_USERS = 64  # in a block on a CPU: a product of fewer users reads the item vectors too often
TIE_SEED = 4  # shuffles equally popular items; must never change
of_few_users = cpu.left_out
ScoreAll = Callable[[Tensor], Tensor]  # users [B] -> [R, B, I]


class Scorer(TypingProtocol):
    logits: ClassVar[bool]
    Rules: ClassVar[type[OwnRules]]
    user_block: int | None

    def for_newcomers(self) -> Tensor | None: ...


def tie_priority(popularity: IntArray, rule: str) -> Tensor:
    """Order of items with equal scores, lower first: by index, or by popularity and then a seeded shuffle."""
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
    priority: Tensor  # [I] order of equal scores
    newcomers: Tensor  # [I] scores for cold users


@dataclass(frozen=True)
class Ranker:
    """Turns scores into ranked lists by the rules of a protocol."""

    score_all: ScoreAll
    runs: int
    seen: Csr  # removed before ranking
    train: Csr
    protocol: Protocol
    device: torch.device
    scores_are_logits: bool = True
    masks_seen: bool = True
    user_block: int | None = None
    newcomers: Tensor | None = None  # [I] scores for cold users; None: popularity

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
        masks_seen = rules.rules_of(target.Rules).mask_seen
        options = (target.logits, masks_seen, target.user_block, target.for_newcomers())
        return cls(score_all, runs, seen, train, rules, device, *options)

    def blocks(self, users: IntArray) -> Iterator[IntArray]:
        user_bytes = 4 * self.runs * self.train.num_items
        size = max(1, BLOCK_BYTES // user_bytes)
        if self.device.type == "cpu":
            size = min(size, max(LEAST_USERS, CPU_BLOCK_BYTES // user_bytes))
        size = self.user_block or size
        for start in range(0, len(users), size):
            yield users[start : start + size]

    def rank(self, users: IntArray, k: int, barred: Tensor | None = None) -> Iterator[tuple[IntArray, Tensor, Tensor]]:
        """For each block of users: the users, their k best items [R, B, k] and the scores, -inf where there is no item.
        Items in `barred` are left out for all users."""
        for block in self.blocks(users):
            yield block, *self._rank_block(block, k, barred)

    @torch.inference_mode()
    def _rank_block(self, users: IntArray, k: int, barred: Tensor | None) -> tuple[Tensor, Tensor]:
        tables, rows = self.tables, torch.from_numpy(users).to(self.device)
        seen = Seen(tables.seen_ptr, tables.seen_items, rows) if self.masks_seen else None
        scores = self.scores(users)
        if barred is not None:
            scores[..., barred] = -torch.inf
        values, items = top_k(scores, k, tables.priority, seen)
        return items, values

    def scores(self, users: IntArray) -> Tensor:
        """The scores that are ranked: [R, B, I]."""
        scores = self.score_all(torch.from_numpy(users).to(self.device))
        if self.protocol.rank_by == "probability" and self.scores_are_logits:
            # in float64: the float32 sigmoid of equal logits can differ in the last bit at the end of a block
            scores = torch.sigmoid(scores.double()).float()
        cold = self.train.ptr[users + 1] == self.train.ptr[users]
        if self.protocol.cold_users == "popularity" and cold.any():
            scores[:, torch.from_numpy(cold).to(self.device)] = self.tables.newcomers.to(scores)
        return scores

    @cached_property
    def tables(self) -> _Tables:
        """Lookup tables, built once because a server ranks one user at a time."""
        popularity = self.train.popularity()
        return _Tables(
            torch.from_numpy(self.seen.ptr).to(self.device),
            # int32, as in a store: one type for the kernels, and half the memory
            torch.from_numpy(self.seen.items).to(self.device, torch.int32),
            tie_priority(popularity, self.protocol.ties).to(self.device),
            (torch.from_numpy(popularity).float() if self.newcomers is None else self.newcomers).to(self.device),
        )
