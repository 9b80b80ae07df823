"""Ranked lists of one run by row numbers: of a user, a history or an item, with reasons, and with the opinions of the
members of a consensus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr, IntArray, Rows
from accord.data.interactions import IdMap, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.ranking import Ranker, tie_priority
from accord.kernels.lookups import entries_of
from accord.kernels.top_k import top_k_of_one
from accord.methods.base import Method
from accord.models.base import Model
from accord.models.consensus import Consensus, standardised, vote

NEIGHBOURS = 10  # training users who represent a new user, if the model cannot fold in a history
REASONS = 3  # given for an item
CELLS_AT_ONCE = 2**26
RANKED_AMONG = 2**17  # times of the log
# Of the log, after which an interaction counts half for newcomers. On the validation of MovieTweetings 0.01 is best, on
# that of MovieLens-100k 0.1; this is within 6% of the best on both, and the whole log is 47% and 5% worse.
HALF_LIFE = 0.05

# The items of a list [n], their scores [n], and what it is based on: model, history or popularity.
List = tuple[Tensor, Tensor, str]
AGREES = 20  # a member agrees with the items of its top 20


class Reasons(NamedTuple):
    """For each item, the rows of items of the history that speak for it, the strongest first, and by how much.
    `contribution` is what an item adds to the score, if the score is a sum over the history; other models give the
    `similarity` of the two items."""

    by: Literal["contribution", "similarity"]
    of_items: list[list[tuple[int, float]]]


class Lists:
    """The rankings that the recommender and the server share, so that they give the same lists."""

    def __init__(self, method: Method, ranker: Ranker, refused: Csr | None = None) -> None:
        """`refused`: pairs that no list has, whether the protocol masks what users have or not."""
        if refused is not None:
            left_out = ranker.seen.merge(refused) if ranker.masks_seen else refused
            ranker = replace(ranker, seen=left_out, masks_seen=True)
        self.method, self.ranker, self.train = method, ranker, ranker.train
        popularity = self.train.popularity()
        self._popular = ranker.tables.newcomers
        self._popular_priority = tie_priority(popularity, "popularity").to(ranker.device)
        self.priority = tie_priority(popularity, ranker.protocol.ties).to(ranker.device)
        self._cold = self.train.counts == 0
        self._cold_source = "popularity" if ranker.protocol.cold_users == "popularity" else "model"

    def sources(self, users: IntArray | int) -> Any:
        return np.where(self._cold[users], self._cold_source, "model")

    def of_user(self, user: int, k: int, barred: Tensor | None = None) -> List:
        """The k best unseen items of a user; `barred` [I] marks items to leave out."""
        _, items, values = next(self.ranker.rank(np.array([user]), k, barred))
        return *_without_gaps(items[0, 0], values[0, 0]), str(self.sources(user))

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
        user, history = source if isinstance(source, int) else None, self._history(source)
        rows = torch.from_numpy(history).to(items)
        if not len(rows) or not len(items):
            return Reasons("similarity", [[] for _ in range(len(items))])
        added = self.method.target.contributions(rows, items, user)
        strength = self.similar.between(items, rows) if added is None else added[0].mT  # [m, n]
        return Reasons("similarity" if added is None else "contribution", self._strongest(strength, history, limit))

    def _history(self, source: int | Rows) -> Rows:
        return source if not isinstance(source, int) else self.train.items[slice(*self.train.ptr[source : source + 2])]

    @staticmethod
    def _strongest(strength: Tensor, history: Rows, limit: int) -> list[list[tuple[int, float]]]:
        """Of each row of strengths [m, n] the items of the history [n] with the largest, if they are above zero."""
        values, places = strength.topk(min(limit, len(history)), dim=1)
        return [
            [(int(history[place]), value) for value, place in zip(*both, strict=True) if value > 0]
            for both in zip(values.tolist(), places.tolist(), strict=True)
        ]

    def _fold_in(self, history: Tensor) -> Tensor | None:
        """Scores [I] from a history: by the model or, if it cannot, the mean of the most similar users' scores.
        On MovieLens-100k the latter ranks as well as the trained vectors of the users themselves, for GMF and NeuMF."""
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


class Similarity(NamedTuple):
    """Similarities of items, given by row number; larger means more similar."""

    to_all: Callable[[int], Tensor]  # of one item to every item: [I]
    between: Callable[[Tensor, Tensor], Tensor]  # of items [n] to others [m]: [n, m]


@torch.inference_mode()
def similarity_of(model: Model, train: Csr) -> Similarity:
    """By what the model, or the members of a consensus, learned about items; otherwise by shared users."""
    return (_of_members(model) if isinstance(model, Consensus) else _learned(model)) or by_shared_users(train)


def _learned(model: Model) -> Similarity | None:
    """By the model's weights between items, or by the cosine of its item vectors; None if it has neither."""
    weights = model.item_to_item()
    if weights is not None:
        return Similarity(lambda item: weights[:, item], lambda items, others: weights[others][:, items].T)
    vectors = model.item_vectors()
    if vectors is None:
        return None
    unit = F.normalize(vectors.detach())
    return Similarity(lambda item: unit @ unit[item], lambda items, others: unit[items] @ unit[others].T)


def _of_members(model: Consensus) -> Similarity | None:
    """The vote of the members that have similarities, each standardised as its scores are."""
    targets: list[Any] = [member.target for member in model.members]
    learned = [(weight, _learned(target)) for weight, target in zip(model.weights, targets, strict=True)]
    voters = [(weight, similarity) for weight, similarity in learned if similarity is not None]
    total = sum(weight for weight, _ in voters)

    def to_all(item: int) -> Tensor:
        return torch.stack([weight / total * standardised(voter.to_all(item)) for weight, voter in voters]).sum(0)

    def between(items: Tensor, others: Tensor) -> Tensor:
        return torch.stack([to_all(item)[others] for item in items.tolist()])

    return Similarity(to_all, between) if voters else None


def by_shared_users(train: Csr) -> Similarity:
    size = 1 / np.sqrt(np.maximum(train.popularity(), 1)).astype(np.float32)
    by_user = sp.csr_matrix((size[train.items], train.items, train.ptr), shape=(train.num_users, train.num_items))
    by_item = by_user.T.tocsr()

    def between(items: Tensor, others: Tensor) -> Tensor:
        shared = by_item[items.cpu().numpy()] @ by_item[others.cpu().numpy()].T
        return torch.from_numpy(shared.toarray()).to(items.device)

    return Similarity(lambda item: torch.from_numpy((by_item[item] @ by_user).toarray()[0]), between)


def popular_lately(parts: Mapping[str, Interactions], users: IdMap, items: IdMap) -> Tensor | None:
    """The popularity of items [I] by the times of a log, where interactions fade with all later ones; None: it has no
    times."""
    logged = [part for name, part in parts.items() if name != "test" and len(part)]
    if not logged or not all(part.has_time for part in logged):
        return None
    times = np.concatenate([part.column("time") for part in logged])
    sample = np.sort(times[:: 1 + len(times) // RANKED_AMONG])
    later = 1 - np.searchsorted(sample, times, side="right") / len(sample)
    rows = np.concatenate([part.rows_in(users, items)[1] for part in logged])
    return torch.from_numpy(np.bincount(rows, 0.5 ** (later / HALF_LIFE), minlength=len(items)).astype(np.float32))


class Agreement:
    def __init__(self, method: Method, owned: Csr, labels: list[str]) -> None:
        """`owned`: the items that users have already, which are in nobody's list."""
        if not isinstance(method.target, Consensus):
            raise InputError(
                "only the members of a consensus can agree; train one with ", Argument("model", "auto"), "."
            )
        self.members, self.labels, self.num_items = list(method.target.members), _distinct(labels), owned.num_items
        self._device = next(iter(method.state_dict().values())).device
        self._ptr = torch.from_numpy(owned.ptr).to(self._device)
        self._items = torch.from_numpy(owned.items).to(self._device).long()

    @torch.inference_mode()
    def places(self, users: Tensor, items: Tensor) -> Tensor:
        """The rank of items [B, k] in each member's list for users [B], from 1: [M, B, k]."""
        rows, owned, _ = entries_of(self._ptr, self._items, users)
        ranks = []
        for member in self.members:
            scores = vote(member, users)
            wanted = scores.gather(1, items)
            scores[rows, owned] = -torch.inf
            ranks.append(torch.stack([(scores > one.unsqueeze(1)).sum(1) + 1 for one in wanted.unbind(1)], 1))
        return torch.stack(ranks)

    def count(self, places: Tensor) -> Tensor:
        """How many members have an item in their top 20: [B, k]."""
        return (places <= AGREES).sum(0)

    def table(self, pairs: Interactions, users: Rows, items: Rows) -> pa.Table:
        """For pairs, and their rows: how many members agree, of how many, and each member's rank; null if unknown."""
        in_data = (users >= 0) & (items >= 0)
        places = np.zeros((len(self.labels), len(pairs)), dtype=np.int64)
        blocks = max(1, int(in_data.sum()) * self.num_items // CELLS_AT_ONCE)
        for part in np.array_split(np.flatnonzero(in_data), blocks):
            rows = [torch.from_numpy(x[part]).to(self._device).long() for x in (users, items)]
            places[:, part] = self.places(rows[0], rows[1].unsqueeze(1)).squeeze(2).cpu().numpy()
        columns = {"agree": (places <= AGREES).sum(0), "of": np.full(len(pairs), len(self.labels))}
        columns |= dict(zip(self.labels, places, strict=True))
        arrays = {name: pa.array(values, pa.int32(), mask=~in_data) for name, values in columns.items()}
        return pa.table({"user": pairs.users, "item": pairs.items, **arrays})


def _distinct(labels: list[str]) -> list[str]:
    numbers = [labels[: place + 1].count(label) for place, label in enumerate(labels)]
    return [f"{label} ({n})" if n > 1 else label for label, n in zip(labels, numbers, strict=True)]
