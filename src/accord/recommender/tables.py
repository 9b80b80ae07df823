"""Recommendations and ids as Arrow tables, under the caller's own ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.csr import IntArray
from accord.data.interactions import IdMap, Ids, Interactions
from accord.evaluation.evaluate import Evaluation


def ids_asked_for(users: Ids | None, known: IdMap) -> pa.Array:
    """The users asked for (None: all), as one Arrow array: of the training ids' type where they can be."""
    if users is None:
        return known.ids
    try:
        ids = users.combine_chunks() if isinstance(users, pa.ChunkedArray) else pa.array(users)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and text together
        ids = pa.array([str(user) for user in users])
    try:
        return ids.cast(known.ids.type)
    except pa.ArrowInvalid:  # text that is no number, where ids are numbers: unknown users
        return ids.cast(pa.string())


def of_lists(users: pa.Array, known: IdMap, items: IntArray, scores: Any, source: Any) -> pa.Table:
    """Lists [B, k] of rows of items as rows; places without an item (fewer unseen items than k) are left out."""
    depth = items.shape[1]
    keep = np.isfinite(scores).ravel()
    owner = np.repeat(np.arange(len(users)), depth)[keep]
    sources = np.broadcast_to(np.asarray(source), (len(users),))[owner]
    return pa.table(
        {
            "user": users.take(pa.array(owner)),
            "rank": pa.array(np.tile(np.arange(1, depth + 1), len(users))[keep], pa.int32()),
            "item": known.take(items.ravel()[keep]),
            "score": pa.array(scores.ravel()[keep], pa.float32()),
            "source": pa.array(sources.tolist(), pa.string()),
        }
    )


def with_ids_of(table: pa.Table, users: IdMap, items: IdMap) -> pa.Table:
    """The users and items of a table, in the type that the ids of a run have."""
    return table.select(["user", "item"]).cast(pa.schema([("user", users.ids.type), ("item", items.ids.type)]))


def of_users(evaluation: Evaluation, known: IdMap, seeds: Sequence[int]) -> pa.Table:
    """An evaluation with a row for each user and run."""
    runs, size = len(seeds), len(evaluation.users)
    columns = {
        "user": known.take(np.tile(evaluation.users, runs)),
        "seed": np.repeat(seeds, size),
        "warm": np.tile(evaluation.warm, runs),
    }
    return pa.table(columns | {name: values.ravel() for name, values in evaluation.per_user.items()})


def as_interactions(source: Interactions | Any) -> Interactions:
    """Interactions as they are, or whatever can be read as a table of them."""
    from accord.data.read import read_table

    return source if isinstance(source, Interactions) else read_table(source, merge=False)[0]
