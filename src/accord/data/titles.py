"""What items are called, and whatever else an items file says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import columns as col
from accord.data import read
from accord.data.columns import Columns
from accord.data.interactions import Dataset
from accord.errors import InputError

OUR_COLUMNS = ("item", "train_count")  # of a run folder's items.parquet


def with_items(dataset: Dataset, source: Any, columns: Columns | None = None) -> Dataset:
    """The dataset with titles and everything else that the file or frame says about its items. `columns`: those named
    for the log; the ids of items may be in a column called alike."""
    ids, info, label = read_items(source, None if columns is None else columns.item)
    rows = dataset.items.rows(ids)
    present = rows >= 0
    if not present.any():
        raise InputError(f"{label}: none of its {len(rows)} ids is an item of the data; is it the right file?")
    place = np.full(len(dataset.items), -1)
    place[rows[present]] = np.flatnonzero(present)
    aligned = info.take(pa.array(place, mask=place < 0))
    titled = len(aligned) - aligned.column("title").null_count
    what, count = ("titles for", titled) if titled else ("attributes of", int(present.sum()))
    note = f"{label}: {what} {count:,} of {len(aligned):,} items."
    if others := len(rows) - int(present.sum()):
        note += f" Ids that are not in the data: {others:,}."
    return replace(dataset, item_info=aligned, notes=(*dataset.notes, note))


def read_items(source: Any, column: str | None = None) -> tuple[pa.ChunkedArray, pa.Table, str]:
    """The ids of an items file or frame, its other columns with `title` as the first, and what to call it."""
    label = str(source) if isinstance(source, str | Path) else f"the {type(source).__name__} of items"
    table, from_text = read.read_all_columns(source)
    id_name, title_name = _columns(label, table.column_names, column)
    ids = col.ids(label, "item", id_name, col.decoded(table.column(id_name)), from_text)
    if ids.null_count:
        raise col.no_id(label, "item", id_name, ids.null_count, pc.index(pc.is_null(ids), True).as_py())
    if repeated := len(ids) - len(pc.unique(ids)):
        raise InputError(f"{label}: {repeated} rows repeat an item id; keep one row for each item.")
    titles = pa.nulls(len(ids), pa.string())
    if title_name is not None:
        titles = pc.utf8_trim_whitespace(col.decoded(table.column(title_name)).cast(pa.string()))
    columns = {"title": pc.if_else(pc.equal(titles, ""), pa.scalar(None, pa.string()), titles)}
    columns |= {name: table.column(name) for name in table.column_names if name not in (id_name, title_name)}
    if taken := [name for name in columns if name in OUR_COLUMNS]:
        raise InputError(
            f"{label}: a column '{taken[0]}' besides the ids has a name that Accord uses itself; rename it."
        )
    return ids, pa.table(columns), label


def _columns(label: str, names: Sequence[str], column: str | None) -> tuple[str, str | None]:
    ids = [name for name in names if name == column]
    ids = ids or [name for name in names if col.simplified(name) == "id" or col.is_usual("item", name)]
    others = {name: col.simplified(name) for name in names if name not in ids}
    titles = [name for name, simplified in others.items() if simplified == "title"]
    titles = titles or [name for name, simplified in others.items() if simplified.endswith(("title", "name"))]
    if len(ids) != 1 or len(titles) > 1 or not others:
        has = col.quoted(names)
        raise InputError(
            f"{label} must have one column of item ids ('id'), at most one 'title', and any others; it has {has}: "
            "rename its columns."
        )
    return ids[0], titles[0] if titles else None
