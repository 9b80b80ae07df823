"""What recommended lists are like besides accurate: how much of the catalogue they show, how popular, how alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

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
    """[I, A] of length 1 a row: words between bars of the columns of text that are no titles; None: there are none."""
    info = recommender.item_info
    names = [] if info is None else [n for n in info.column_names if n != "title" and pa.types.is_string(info[n].type)]
    if info is None or not names:
        return None
    parts = []
    for name in names:
        lists = pc.split_pattern(info[name].combine_chunks().fill_null(""), "|")
        codes = pc.list_flatten(lists).dictionary_encode()
        owners, known = (
            np.asarray(pc.list_parent_indices(lists)),
            np.array([bool(v) for v in codes.dictionary.to_pylist()]),
        )
        kept = known[np.asarray(codes.indices)]
        place = owners[kept], np.asarray(codes.indices)[kept]
        parts.append(sp.csr_matrix((np.ones(kept.sum()), place), shape=(len(info), len(known))))
    every = sp.hstack(parts).tocsr()
    norms = np.sqrt(np.asarray(every.multiply(every).sum(1)).ravel())
    return sp.diags(1 / np.maximum(norms, 1e-12)) @ every
