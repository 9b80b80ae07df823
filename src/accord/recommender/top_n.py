"""Ranked lists of one run by row numbers, for a user, a history or an unknown user; and the reasons for their items."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr, IntArray, Rows
from accord.evaluation.ranking import Ranker, tie_priority
from accord.kernels.lookups import entries_of
from accord.kernels.top_k import top_k_of_one
from accord.methods.base import Method
from accord.recommender.similar import Similarity, similarity_of

NEIGHBOURS = 10  # training users who represent a new user, if the model cannot fold in a history
REASONS = 3  # given for an item

# The items of a list [n], their scores [n], and what it is based on: model, history or popularity.
List = tuple[Tensor, Tensor, str]


class Reasons(NamedTuple):
    """For each item, the rows of items of the history that speak for it, the strongest first, and by how much.

    `contribution` is what an item adds to the score, if the score is a sum over the history; other models give the
    `similarity` of the two items.
    """

    by: Literal["contribution", "similarity"]
    of_items: list[list[tuple[int, float]]]


class Lists:
    """The rankings that the recommender and the server share, so that they give the same lists."""

    def __init__(self, method: Method, ranker: Ranker) -> None:
        self.method, self.ranker, self.train = method, ranker, ranker.train
        popularity = self.train.popularity()
        self._popular = ranker.tables.newcomers
        self._popular_priority = tie_priority(popularity, "popularity").to(ranker.device)
        self.priority = tie_priority(popularity, ranker.protocol.ties).to(ranker.device)
        self._cold = self.train.counts == 0
        self._cold_source = "popularity" if ranker.protocol.cold_users == "popularity" else "model"

    def sources(self, users: IntArray | int) -> Any:
        """What the lists of users are based on."""
        return np.where(self._cold[users], self._cold_source, "model")

    def of_user(self, user: int, k: int, barred: Tensor | None = None) -> List:
        """The k best unseen items of a user; `barred` [I] marks items to leave out."""
        items, values = self.ranker.rank_one(user, k, barred)
        return *_without_gaps(items, values), str(self.sources(user))

    @torch.inference_mode()
    def of_history(self, history: IntArray, k: int, barred: Tensor | None = None) -> List:
        """The k best items for a new user with this history of distinct items, the latest last."""
        rows = torch.from_numpy(history).to(self.ranker.device)
        scores = self._fold_in(rows) if len(history) else None
        source, priority = "history", self.priority
        if scores is None:
            scores, source, priority = self._popular, "popularity", self._popular_priority
        values, items = top_k_of_one(scores.clone(), k, priority, rows, barred)
        return *_without_gaps(items, values), source

    @torch.inference_mode()
    def scores(self, users: IntArray, items: IntArray) -> npt.NDArray[np.float32]:
        """The scores that lists rank by, of pairs [n]. All items of a user are scored, so that they equal a list's."""
        scores = np.empty(len(users), dtype=np.float32)
        distinct, owner = np.unique(users, return_inverse=True)
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
        done = 0
        for block in self.ranker.blocks(distinct):
            pairs = order[ends[done] : ends[done + len(block)]]
            places = (torch.from_numpy(x).to(self.ranker.device) for x in (owner[pairs] - done, items[pairs]))
            scores[pairs] = self.ranker.scores(block)[0][tuple(places)].cpu().numpy()
            done += len(block)
        return scores

    @cached_property
    def similar(self) -> Similarity:
        return similarity_of(self.method.target, self.train)

    @torch.inference_mode()
    def similar_to(self, item: int, k: int, barred: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k items most similar to an item [n], and how similar they are."""
        similarity = self.similar.to_all(item).to(self.ranker.device, copy=True)
        itself = torch.tensor([item]).to(similarity.device)
        values, items = top_k_of_one(similarity, k, self._popular_priority, itself, barred)
        return _without_gaps(items, values)

    @torch.inference_mode()
    def reasons(self, items: Tensor, source: int | Rows, limit: int = REASONS) -> Reasons:
        """Why items [m] are recommended to a training user, or for a history of distinct items, the latest last."""
        user = source if isinstance(source, int) else None
        history = (
            source if not isinstance(source, int) else self.train.items[slice(*self.train.ptr[source : source + 2])]
        )
        rows = torch.from_numpy(history).to(items)
        if not len(rows) or not len(items):
            return Reasons("similarity", [[] for _ in range(len(items))])
        added = self.method.target.contributions(rows, items, user)
        strength = self.similar.between(items, rows) if added is None else added[0].mT  # [m, n]
        values, places = strength.topk(min(limit, len(rows)), dim=1)
        of_items = [
            [(int(history[place]), value) for value, place in zip(*both, strict=True) if value > 0]
            for both in zip(values.tolist(), places.tolist(), strict=True)
        ]
        return Reasons("similarity" if added is None else "contribution", of_items)

    def _fold_in(self, history: Tensor) -> Tensor | None:
        """Scores [I] from a history: by the model or, if it cannot, the mean of the most similar users' scores.

        On MovieLens-100k the latter ranks as well as the trained vectors of the users themselves, for GMF and NeuMF.
        """
        scores = self.method.target.scores_of(history)
        if scores is not None:
            return scores.mean(0)  # over the members of an ensemble
        neighbours, weights = self.neighbours(history)
        return weights @ self.method.score_all(neighbours)[0] if len(neighbours) else None

    def neighbours(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """The users [n] whose histories are most similar by cosine, and their weights, which sum to one."""
        ptr, owners, weight = self._users_by_item
        _, users, _ = entries_of(ptr, owners, history)
        similarity = torch.bincount(users, weight[users], minlength=self.train.num_users)
        least = similarity.topk(min(NEIGHBOURS, len(similarity))).values[-1]
        above, tied = (similarity > least).nonzero().squeeze(1), (similarity == least).nonzero().squeeze(1)
        users = torch.cat([above, tied[: NEIGHBOURS - len(above)]])  # of tied users the first
        users = users[similarity[users] > 0]
        users = users[similarity[users].argsort(descending=True, stable=True)]
        return users, similarity[users] / similarity[users].sum()

    @cached_property
    def _users_by_item(self) -> tuple[Tensor, Tensor, Tensor]:
        """The users of each item, as a CSR by item; and each user's weight in a cosine: 1 / sqrt(history length)."""
        by_item = Csr.of(self.train.items, self.train.users, self.train.num_items, self.train.num_users)
        weight = 1 / np.sqrt(np.maximum(self.train.counts, 1)).astype(np.float32)
        ptr, owners, weights = (
            torch.from_numpy(part).to(self.ranker.device) for part in (by_item.ptr, by_item.items, weight)
        )
        return ptr, owners, weights


def latest_last(history: IntArray) -> IntArray:
    """The distinct items of a history, each at its last occurrence."""
    _, places = np.unique(history[::-1], return_index=True)
    return history[::-1][np.sort(places)[::-1]]


def _without_gaps(items: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Without the ranks for which no item was left."""
    present = values > -torch.inf
    return items[present], values[present]
