"""How well new items are recommended: items held out whole, and a run trained as before on all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import pad

from accord.consensus.training import train_run
from accord.data.attributes import Attributes, unit
from accord.data.csr import Csr, Rows
from accord.data.interactions import Dataset, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.recommender.new_items import WithNewItems
from accord.recommender.recommender import Recommender

SHARE, SEED, K = 0.1, 0, 20
NEAREST = 100  # items by attributes in a content kNN: on MovieTweetings and on Coat 20 and 300 are worse on one of them


def evaluate_new_items(recommender: Recommender) -> dict[str, Any]:
    """Recall among the new items of the run and of two plain rules, and the NDCG of other items without and with new
    items in the lists."""
    data = _without_some(recommender)
    run = recommender.chosen_spec
    if run.kind.learns and run.config.protocol.early_stop == "best-ndcg":  # there is no validation to stop by
        epochs = recommender.metrics["runs"][recommender.chosen]["epochs"]
        run = run.updated(train=run.config.train.model_copy(update={"epochs": max(1, epochs)}))
    method = train_run(data, run, recommender.device).method
    train = data.training_csr(run.columns)
    before = Recommender(run, method, data.users, data.items, train, train, recommender.metrics)
    described = {"id": recommender.items.ids, **_columns(recommender)}
    new = WithNewItems(before, pa.table(described))
    size, ranker = len(data.items), new.lists.ranker

    def held_out(part: Interactions, keep: Callable[[Rows], npt.NDArray[np.bool_]], ranker: Ranker) -> Relevant:
        users, items = part.rows_in(data.users, new.items)
        there = (users >= 0) & keep(items)
        pairs = Csr.of(users[there], items[there], len(data.users), ranker.train.num_items)
        return Relevant.of_pairs(pairs, ranker.seen).sampled()

    relevant = held_out(recommender.everything().train, lambda items: items >= size, ranker)
    if not len(relevant.users):
        raise InputError("no user of the items that were held out has others; give a log with longer histories.")

    def recall(scores: Callable[[Tensor], Tensor]) -> float:
        """Of scores of the new items, [1, B, N]."""
        alone = replace(ranker, score_all=lambda users: pad(scores(users), (size, 0), value=-torch.inf))
        return evaluate(alone, relevant, [K]).mean()[0][f"recall@{K}"]

    rules = _Rules(new, train)
    result: dict[str, Any] = {"items": len(new.items) - size, "users": len(relevant.users)}
    result[f"recall@{K}"] = {
        "this run": recall(lambda users: ranker.score_all(users)[..., size:]),
        "popularity of the attributes": recall(rules.popularity),
        "content kNN": recall(rules.nearest),
    }
    result["others"] = {}
    for name, one in (("without new items", before.lists.ranker), ("with new items", ranker)):
        others = held_out(recommender.parts["test"], lambda items: (items >= 0) & (items < size), one)
        if len(others.users):
            result["others"][name] = evaluate(one, others, [K]).mean()[0][f"ndcg@{K}"]
    return result


def _columns(recommender: Recommender) -> dict[str, Any]:
    """What is known of its items."""
    info = recommender.item_info
    if info is None:
        raise InputError("nothing is known of the items; train with ", Argument("items"), ".")
    return dict(zip(info.column_names, info.columns, strict=True))


def _without_some(recommender: Recommender) -> Dataset:
    """The training interactions without a random tenth of the items that have attributes."""
    train, features = recommender.trained_on, Attributes.of(pa.table(_columns(recommender))).matrix
    described = np.flatnonzero((np.diff(features.indptr) > 0) & (recommender.train.popularity() > 0))
    count = max(2 * K, round(SHARE * len(described)))  # of K or fewer all would be in a list of K
    if 2 * count > len(described):
        raise InputError(
            f"{len(described)} items have attributes and interactions, and {4 * K} are needed to hold some out."
        )
    held = np.zeros(len(recommender.items), dtype=bool)
    held[np.random.default_rng(SEED).permutation(described)[:count]] = True
    rest = train.filter(~held[train.rows_in(recommender.users, recommender.items)[1]])
    none = rest.slice(0, 0)
    data = Dataset.of(recommender.metrics["dataset"]["name"], rest, none, none)
    if recommender.outside is None:
        return data
    users, items = data.rows(recommender.outside)
    return replace(data, outside=recommender.outside.filter((users >= 0) & (items >= 0)))


class _Rules:
    """Scores of new items [1, B, N] by rules that need no training."""

    def __init__(self, new: WithNewItems, train: Csr) -> None:
        matrix, counts = new.attributes.matrix, train.popularity()
        known, fresh = matrix[: new.known], matrix[new.known :]
        has, wants = (known > 0).astype(np.float64), (fresh > 0).astype(np.float64)
        mean = (has.T @ counts) / np.maximum(has.sum(0), 1)  # popularity of the items with an attribute
        self._popularity = torch.from_numpy(wants @ mean / np.maximum(wants.sum(1), 1)).float()
        cosine = (unit(fresh) @ unit(known).T).toarray()
        least = -np.sort(-cosine, axis=1)[:, : min(NEAREST, new.known)][:, -1:]
        self._nearest = np.where(cosine >= least, cosine, 0).T.astype(np.float32)  # [I, N]
        self._train = sp.csr_array(
            (np.ones(len(train.items), np.float32), train.items, train.ptr), (train.num_users, train.num_items)
        )

    def popularity(self, users: Tensor) -> Tensor:
        """The mean popularity of the other items with an attribute, over the attributes of a new one."""
        return self._popularity.to(users.device).expand(1, len(users), -1)

    def nearest(self, users: Tensor) -> Tensor:
        """The sum of the cosines between a new item and those of a history that are among its nearest."""
        return torch.from_numpy(self._train[users.cpu().numpy()] @ self._nearest).to(users.device).unsqueeze(0)
