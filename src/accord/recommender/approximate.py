"""Lists for catalogues of millions of items without scoring them all: an index of item vectors, and its recall."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.data.csr import IntArray
from accord.errors import InputError
from accord.kernels.lookups import entries_of
from accord.recommender.top_n import Lists

BLOCK = 4096  # users whose lists are given at once
SEARCH_BLOCK = 256  # of these, users with histories of similar length are searched for together
MAX_CANDIDATES = 1024  # of a user; who has seen more items than that is ranked exactly
MIN_WIDTH = 128  # of the search in the index: the wider, the fewer items are missed
SAMPLE = 1000  # users whose lists are compared with exact ones


class Nearest:
    """Ranks like `Ranker.rank`, from candidates with similar vectors, which the model itself scores."""

    def __init__(self, lists: Lists) -> None:
        self.lists, self.ranker, self.method = lists, lists.ranker, lists.method
        nobody = torch.zeros(self.method.members, 0, dtype=torch.long, device=self.ranker.device)
        with torch.inference_mode():
            factors = self.method.target.factors(nobody)
        if factors is None or self.method.members > 1 or not self.ranker.masks_seen:
            raise InputError(
                "an approximate index needs a model whose scores are products of vectors: mf, gmf or lightgcn."
            )
        vectors = factors[1][0].detach().float().cpu().numpy()
        self.index = _index(vectors.shape[1])
        self.index.add(np.arange(len(vectors)), vectors)
        self.cold = lists.train.counts == 0
        self.seen_counts = self.ranker.seen.counts
        self.popular_first = self.ranker.protocol.cold_users == "popularity"
        self.num_items = len(vectors)

    def rank(self, users: IntArray, k: int) -> Iterator[tuple[IntArray, Tensor, Tensor]]:
        """For blocks of users: the users, their k best items [1, B, k] and the scores; -inf marks no item."""
        for start in range(0, len(users), BLOCK):
            block = users[start : start + BLOCK]
            yield block, *self._rank_block(block, min(k, self.num_items))

    @torch.inference_mode()
    def _rank_block(self, users: IntArray, k: int) -> tuple[Tensor, Tensor]:
        """Candidates include seen items, so users who have seen more need more of them."""
        items = torch.zeros(len(users), k, dtype=torch.long, device=self.ranker.device)
        scores = torch.full((len(users), k), -torch.inf, device=self.ranker.device)
        by_seen = np.argsort(self.seen_counts[users], kind="stable")
        for start in range(0, len(users), SEARCH_BLOCK):
            part = by_seen[start : start + SEARCH_BLOCK]
            best, values = self._candidates(users[part], k)
            items[part, : best.shape[1]], scores[part, : best.shape[1]] = best, values
        return self._complete(users, items, scores, k)

    def _candidates(self, users: IntArray, k: int) -> tuple[Tensor, Tensor]:
        """The k best of the items that the index returns [B, k], or fewer, and the scores; -inf marks no item."""
        device = self.ranker.device
        rows = torch.from_numpy(users).to(device)
        depth = min(k + int(self.seen_counts[users].max()), max(k, MAX_CANDIDATES), self.num_items)
        factors = self.method.target.factors(rows.unsqueeze(0))
        assert factors is not None
        self.index.expansion_search = max(MIN_WIDTH, 2 * depth)
        matches = self.index.search(factors[0][0].float().cpu().numpy(), depth)
        keys = matches.keys.reshape(len(users), -1).astype(np.int64)
        counts = getattr(matches, "counts", [keys.shape[1]])  # the answer for one user has no counts
        is_match = np.arange(keys.shape[1]) < np.reshape(counts, (-1, 1))  # the other keys are undefined
        items = torch.from_numpy(np.where(is_match, keys, 0)).to(device)
        pairs = rows[:, None].expand_as(items).reshape(1, -1), items.view(1, -1)
        scores: Tensor = self.method.target(*pairs).view(items.shape)
        if self.ranker.protocol.rank_by == "probability":
            scores = torch.sigmoid(scores.double()).float()
        scores = scores.masked_fill(self._seen(rows, items) | ~torch.from_numpy(is_match).to(device), -torch.inf)
        by_priority = self.lists.priority[items].argsort(1)
        items, scores = items.gather(1, by_priority), scores.gather(1, by_priority)
        best = scores.argsort(dim=1, descending=True, stable=True)[:, :k]
        return items.gather(1, best), scores.gather(1, best)

    def _seen(self, rows: Tensor, items: Tensor) -> Tensor:
        """Which of the candidates [B, n] their user has seen."""
        tables = self.ranker.tables
        owner, seen, _ = entries_of(tables.seen_ptr, tables.seen_items, rows)
        if not len(seen):
            return torch.zeros_like(items, dtype=torch.bool)
        keys = owner * self.num_items + seen  # sorted
        wanted = torch.arange(len(rows), device=rows.device)[:, None] * self.num_items + items
        return keys[torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)] == wanted

    def _complete(self, users: IntArray, items: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """With exact lists for users who have too few candidates, or who get the popular items."""
        wanted = np.minimum(k, self.num_items - self.seen_counts[users])
        too_few = torch.isfinite(scores).sum(1).cpu().numpy() < wanted
        again = np.flatnonzero(too_few | (self.popular_first & self.cold[users]))
        done = 0
        for block, best, values in self.ranker.rank(users[again], k):
            place = torch.from_numpy(again[done : done + len(block)]).to(items.device)
            items[place], scores[place] = best[0], values[0]
            done += len(block)
        return items.unsqueeze(0), scores.unsqueeze(0)

    def recall(self, k: int) -> tuple[float, int]:
        """The share of the exact lists of a sample of users that the index finds, and the number of users."""
        warm = np.flatnonzero(~self.cold)
        sample = np.sort(np.random.default_rng(0).choice(warm, min(SAMPLE, len(warm)), replace=False))
        exact, approximate = (
            torch.cat([torch.where(values[0] > -torch.inf, items[0], -1) for _, items, values in rank(sample, k)])
            for rank in (self.ranker.rank, self.rank)
        )
        hits = ((exact[:, :, None] == approximate[:, None, :]) & (exact[:, :, None] >= 0)).sum()
        return float(hits) / max(1, int((exact >= 0).sum())), len(sample)


def _index(width: int) -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        raise InputError(
            "an approximate index needs usearch; install it with: pip install 'accord[approximate]'."
        ) from None
    return Index(ndim=width, metric="ip", dtype="f32", connectivity=32, expansion_add=MIN_WIDTH)
