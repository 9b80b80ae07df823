"""What recommended lists are like besides accurate: how much of the catalogue they show, how popular, how alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from accord.data.attributes import Attributes, unit
from accord.errors import InputError
from accord.recommender.recommender import Recommender


def beyond_accuracy(recommender: Recommender, lists: pa.Table) -> dict[str, float]:
    """Of lists, a row for each user and item: the share of the items that are in any; their novelty, the mean of -log2
    of an item's share of the users, in bits; the mean popularity of what is recommended, and of what the log has; and,
    where items have attributes, the mean cosine of two items of a list by these."""
    train, items = recommender.train, recommender.items.rows(lists.column("item"))
    popularity, users = train.popularity(), max(1, int((train.counts > 0).sum()))
    result = {
        "coverage": len(np.unique(items)) / len(recommender.items),
        "novelty": float(-np.log2(np.maximum(popularity[items], 0.5) / users).mean()),
        "popularity": float(popularity[items].mean()),
        "popularity of the log": float(popularity @ popularity / max(1, popularity.sum())),
    }
    attributes = _attributes(recommender)
    if attributes is not None:
        owners = np.unique(recommender.users.rows(lists.column("user")), return_inverse=True)[1]
        rows = attributes[items]
        total = sp.csr_matrix((np.ones(len(items)), (owners, np.arange(len(items))))) @ rows
        sizes, same = np.bincount(owners), np.bincount(owners, np.asarray(rows.multiply(rows).sum(1)).ravel())
        alike = np.asarray(total.multiply(total).sum(1)).ravel() - same
        several = sizes > 1
        result["similarity"] = float((alike[several] / (sizes * (sizes - 1))[several]).mean()) if several.any() else 0.0
    return result


def described(figures: dict[str, float], k: int) -> str:
    """One sentence."""
    alike = f"; similarity within a list {figures['similarity']:.3f}" if "similarity" in figures else ""
    return (
        f"lists of {k}: coverage {figures['coverage']:.1%}, novelty {figures['novelty']:.2f} bits, popularity "
        f"{figures['popularity']:,.1f} interactions an item (the log: {figures['popularity of the log']:,.1f}){alike}"
    )


def _attributes(recommender: Recommender) -> Any:
    """[I, F] with rows of length 1, of all columns but the title; None: there are none that some items share."""
    info = recommender.item_info
    try:
        named = None if info is None else Attributes.of(info.select([n for n in info.column_names if n != "title"]))
    except InputError:
        return None
    return None if named is None else unit(named.matrix)
