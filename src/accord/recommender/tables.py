"""Recommendations and ids as Arrow tables, under the caller's ids."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.columns import Columns
from accord.data.csr import IntArray
from accord.data.interactions import IdMap, Ids, Interactions
from accord.data.read import read_table
from accord.errors import InputError, shown


def as_ids(name: str, given: Ids, training: IdMap) -> pa.Array:
    """The ids that a caller gives as `name`, as one Arrow array: of the training ids' type if possible."""
    if isinstance(given, pa.ChunkedArray):
        ids = given.combine_chunks()
    else:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InputError(f"{name} is {shown(given)}, and a list of ids is needed; give [{shown(given)}].")
        given = given if hasattr(given, "__len__") else list(given)
        try:
            ids = pa.array(given)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and text together
            ids = pa.array([str(one) for one in given])
    try:
        return ids.cast(training.ids.type)
    except pa.ArrowInvalid:  # text that is no number, in a run whose ids are numbers: unknown
        return ids.cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(f"{name} contains {ids.type}, and ids are text or whole numbers; give those.") from None


def require_count(name: str, given: Any) -> int:
    """A positive whole number that a caller gives as `name`."""
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if count < 1 or isinstance(given, bool):
        raise InputError(f"{name} is {shown(given)}; give a whole number from 1 up.")
    return count


def of_lists(users: pa.Array, all_items: IdMap, items: IntArray, scores: Any, source: Any) -> pa.Table:
    """Lists [B, k] of item rows as table rows; ranks without an item (fewer unseen items than k) are left out."""
    depth = items.shape[1]
    keep = np.isfinite(scores).ravel()
    owner = np.repeat(np.arange(len(users)), depth)[keep]
    sources = np.broadcast_to(np.asarray(source), (len(users),))[owner]
    return pa.table(
        {
            "user": users.take(pa.array(owner)),
            "rank": pa.array(np.tile(np.arange(1, depth + 1), len(users))[keep], pa.int32()),
            "item": all_items.take(items.ravel()[keep]),
            "score": pa.array(scores.ravel()[keep], pa.float32()),
            "source": pa.array(sources.tolist(), pa.string()),
        }
    )


def as_interactions(source: Interactions | Any, columns: Columns | Mapping[str, str] | None = None) -> Interactions:
    """Interactions as they are, or anything that can be read as a table of them."""
    return source if isinstance(source, Interactions) else read_table(source, Columns.of(columns), merge=False)[0]
