"""Ranked lists of one run by row numbers: for a known user, for a history, for an unknown user."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr, IntArray
from accord.evaluation.ranking import Ranker, tie_priority
from accord.kernels.lookups import entries_of
from accord.kernels.top_k import top_k_of_one
from accord.methods.base import Method
from accord.recommender.similar import Similarity, similarity_of

NEIGHBOURS = 10  # users of training who stand in for a newcomer where the model cannot fold in a history

# The items of a list [n], their scores [n], and where it comes from: model, history or popularity.
List = tuple[Tensor, Tensor, str]


class Lists:
    """What the recommender and the server both rank with, so that they give the same lists."""

    def __init__(self, method: Method, ranker: Ranker) -> None:
        self.method, self.ranker, self.train = method, ranker, ranker.train
        popularity = self.train.popularity()
        self._popular = ranker.tables.newcomers
        self._popular_priority = tie_priority(popularity, "popularity").to(ranker.device)
        self.priority = tie_priority(popularity, ranker.protocol.ties).to(ranker.device)
        self._cold = self.train.counts == 0
        self._cold_source = "popularity" if ranker.protocol.cold_users == "popularity" else "model"

    def sources(self, users: IntArray | int) -> Any:
        """Where the lists of users come from."""
        return np.where(self._cold[users], self._cold_source, "model")

    def of_user(self, user: int, k: int, barred: Tensor | None = None) -> List:
        """The k best unseen items of a user; `barred` [I] marks items that are left out."""
        items, values = self.ranker.rank_one(user, k, barred)
        return *_present(items, values), str(self.sources(user))

    @torch.inference_mode()
    def scores(self, users: IntArray, items: IntArray) -> npt.NDArray[np.float32]:
        """What lists rank by, of pairs: [n]. All items of a user are scored, so that it is what a list says."""
        found = np.empty(len(users), dtype=np.float32)
        every, owner = np.unique(users, return_inverse=True)
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(every) + 1))
        done = 0
        for block in self.ranker.blocks(every):
            pairs = order[ends[done] : ends[done + len(block)]]
            places = (torch.from_numpy(x).to(self.ranker.device) for x in (owner[pairs] - done, items[pairs]))
            found[pairs] = self.ranker.scores(block)[0][tuple(places)].cpu().numpy()
            done += len(block)
        return found

    @cached_property
    def similar(self) -> Similarity:
        """How similar items are."""
        return similarity_of(self.method.target, self.train)

    @torch.inference_mode()
    def similar_to(self, item: int, k: int, barred: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k items most similar to an item [n], and how similar they are."""
        alike = self.similar.to_all(item).to(self.ranker.device, copy=True)
        values, items = top_k_of_one(alike, k, self._popular_priority, torch.tensor([item]).to(alike.device), barred)
        return _present(items, values)

    @torch.inference_mode()
    def of_history(self, history: IntArray, k: int, barred: Tensor | None = None) -> List:
        """The k best items for a user of whom only these different items are known, the latest last."""
        rows = torch.from_numpy(history).to(self.ranker.device)
        scores = self._folded_in(rows) if len(history) else None
        source, priority = "history", self.priority
        if scores is None:
            scores, source, priority = self._popular, "popularity", self._popular_priority
        values, items = top_k_of_one(scores.clone(), k, priority, rows, barred)
        return *_present(items, values), source

    def _folded_in(self, history: Tensor) -> Tensor | None:
        """Scores [I] from a history: the model's own way, or else the mean of the users who are most alike.

        On MovieLens-100k the latter ranks as well as the trained vectors of the users themselves, for GMF and NeuMF.
        """
        scores = self.method.target.scores_of(history)
        if scores is not None:
            return scores.mean(0)  # over the members of an ensemble
        neighbours, weights = self.neighbours(history)
        if not len(neighbours):
            return None
        return weights @ self.method.score_all(neighbours)[0]

    def neighbours(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Users [n] whose histories are most alike by cosine, and their weights, which sum to one."""
        ptr, takers, weight = self._takers
        _, users, _ = entries_of(ptr, takers, history)
        alike = torch.bincount(users, weight[users], minlength=self.train.num_users)
        least = alike.topk(min(NEIGHBOURS, len(alike))).values[-1]
        above, level = (torch.nonzero(mask).squeeze(1) for mask in (alike > least, (alike == least) & (alike > 0)))
        users = torch.cat([above, level[: NEIGHBOURS - len(above)]])  # of those on a level the first
        users = users[alike[users].argsort(descending=True, stable=True)]
        return users, alike[users] / alike[users].sum()

    @cached_property
    def _takers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Who took each item, as a CSR by item, and each user's weight in a cosine: 1 / sqrt(size of the history)."""
        by_item = Csr.of(self.train.items, self.train.users, self.train.num_items, self.train.num_users)
        weight = 1 / np.sqrt(np.maximum(self.train.counts, 1)).astype(np.float32)
        ptr, takers, weights = (torch.from_numpy(part) for part in (by_item.ptr, by_item.items, weight))
        device = self.ranker.device
        return ptr.to(device), takers.to(device), weights.to(device)


def latest_last(history: IntArray) -> IntArray:
    """The different items of a history, each where it is for the last time."""
    _, places = np.unique(history[::-1], return_index=True)
    return history[::-1][np.sort(places)[::-1]]


def _present(items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Without the places for which no item was left."""
    there = values > -torch.inf
    return items[there], values[there]
