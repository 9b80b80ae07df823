"""How well new items are recommended: items held out whole, and a run trained as before on all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import pad

from accord.consensus.training import train_run
from accord.data.attributes import Attributes, unit
from accord.data.csr import Bools, Csr, Rows
from accord.data.interactions import Dataset, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.recommender.new_items import WithNewItems
from accord.recommender.recommender import Recommender

SHARE, SEED, K = 0.1, 0, 20
NEAREST = 100  # items by attributes in a content kNN: with 20 it is worse on MovieTweetings and on Coat


def evaluate_new_items(recommender: Recommender, drawn_from: Bools | None = None, seed: int = SEED) -> dict[str, Any]:
    """Recall among the new items of the run and of two rules that need no model, and the NDCG of other items without
    and with new items in the lists. `drawn_from` [I]: which items may be held out."""
    data, new_ids = _without_some(recommender, drawn_from, seed)
    run = recommender.chosen_spec
    if run.kind.learns and run.config.protocol.early_stop == "best-ndcg":  # there is no validation to stop by
        epochs = recommender.metrics["runs"][recommender.chosen]["epochs"]
        run = run.updated(train=run.config.train.model_copy(update={"epochs": max(1, epochs)}))
    method = train_run(data, run, recommender.device).method
    train = data.training_csr(run.columns)
    before = Recommender(run, method, data.users, data.items, train, train, recommender.metrics)
    about = pa.table({"id": recommender.items.ids, **_columns(recommender)})
    new = WithNewItems(before, about.filter(pc.is_in(about["id"], pa.concat_arrays([data.items.ids, new_ids]))))
    size, ranker = len(data.items), new.lists.ranker

    def held_out(part: Interactions, keep: Callable[[Rows], Bools], ranker: Ranker) -> Relevant:
        users, items = part.rows_in(data.users, new.items)
        there = (users >= 0) & keep(items)
        pairs = Csr.of(users[there], items[there], len(data.users), ranker.train.num_items)
        return Relevant.of_pairs(pairs, ranker.seen).sampled()

    relevant = held_out(recommender.everything().train, lambda items: items >= size, ranker)
    if not len(relevant.users):
        raise InputError("no user of the held-out items has other items; give a log with longer histories.")

    def recall(scores: Callable[[Tensor], Tensor]) -> float:
        """Of scores of the new items, [1, B, N]."""
        alone = replace(ranker, score_all=lambda users: pad(scores(users), (size, 0), value=-torch.inf))
        return evaluate(alone, relevant, [K]).mean()[0][f"recall@{K}"]

    popularity = ranker.tables.newcomers[size:]
    result: dict[str, Any] = {"items": len(new.items) - size, "users": len(relevant.users)}
    result[f"recall@{K}"] = {
        "this run": recall(lambda users: ranker.score_all(users)[..., size:]),
        "popularity by attributes": recall(lambda users: popularity.expand(1, len(users), -1)),
        "content kNN": recall(_content_knn(new, train)),
    }
    result["others"] = {}
    for name, one in (("without new items", before.lists.ranker), ("with new items", ranker)):
        others = held_out(recommender.parts["test"], lambda items: (items >= 0) & (items < size), one)
        if len(others.users):
            result["others"][name] = evaluate(one, others, [K]).mean()[0][f"ndcg@{K}"]
    return result


def _columns(recommender: Recommender) -> dict[str, Any]:
    """The attributes of its items."""
    info = recommender.item_info
    if info is None:
        raise InputError("the run has no attributes of items; train with ", Argument("items"), ".")
    return dict(zip(info.column_names, info.columns, strict=True))


def _without_some(recommender: Recommender, drawn_from: Bools | None, seed: int) -> tuple[Dataset, pa.Array]:
    """The training interactions without a random tenth of the items that have attributes, and the ids of these."""
    train, features = recommender.trained_on, Attributes.of(pa.table(_columns(recommender))).matrix
    described = np.flatnonzero((np.diff(features.indptr) > 0) & (recommender.train.popularity() > 0))
    count = max(2 * K, round(SHARE * len(described)))  # of K or fewer all would be in a list of K
    if 2 * count > len(described):
        raise InputError(
            f"{len(described)} items have attributes and interactions, and {4 * K} are needed to hold some out;"
            " give a file of more items, or leave ",
            Argument("new_items"),
            " out.",
        )
    held = np.zeros(len(recommender.items), dtype=bool)
    some = described if drawn_from is None else described[drawn_from[described]]
    held[np.random.default_rng(seed).permutation(some)[:count]] = True
    rest = train.filter(~held[train.rows_in(recommender.users, recommender.items)[1]])
    none = rest.slice(0, 0)
    data = Dataset.of(recommender.metrics["dataset"]["name"], rest, none, none)
    if recommender.outside is not None:
        users, items = data.rows(recommender.outside)
        data = replace(data, outside=recommender.outside.filter((users >= 0) & (items >= 0)))
    return data, recommender.items.ids.filter(pa.array(held))


def _content_knn(new: WithNewItems, train: Csr) -> Callable[[Tensor], Tensor]:
    """Scores of new items [1, B, N]: the sums of their cosines with those of a history that are among their nearest."""
    matrix = unit(new.attributes.matrix)
    cosine = (matrix[new.known :] @ matrix[: new.known].T).toarray()
    least = -np.sort(-cosine, axis=1)[:, :NEAREST][:, -1:]
    nearest = np.where(cosine >= least, cosine, 0).T.astype(np.float32)  # [I, N]
    ones = np.ones(len(train.items), np.float32)
    histories = sp.csr_array((ones, train.items, train.ptr), (train.num_users, train.num_items))
    return lambda users: torch.from_numpy(histories[users.cpu().numpy()] @ nearest).to(users.device).unsqueeze(0)
