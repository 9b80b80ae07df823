"""What items are called: an items file of id, title and any other columns, or MovieLens' list of films."""

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
from accord.data.interactions import Dataset
from accord.errors import InputError

OUR_COLUMNS = ("item", "train_count")  # of a run folder's items.parquet
# The lists of films that come without usable headers: delimiter, encoding, lines to skip.
FILM_LISTS = {"u.item": ("|", "latin-1", 0), "movies.dat": ("::", "latin-1", 0), "ml-100k.item": ("\t", "utf-8", 1)}
# The paper's split of MovieLens-100k leaves out these films and renumbers the others from 0, in the same order.
# They come from comparing the raters and ratings of each film with u.data: all 1,611 agree exactly (a test checks it).
LEFT_OUT_OF_SPLIT = {
    677, 814, 897, 910, 913, 957, 1106, 1130, 1236, 1408, 1432, 1447, 1453, 1458, 1460, 1476, 1494, 1498, 1508,
    1520, 1525, 1526, 1543, 1546, 1566, 1567, 1568, 1569, 1570, 1571, 1572, 1575, 1576, 1577, 1581, 1582, 1583,
    1584, 1587, 1588, 1603, 1613, 1614, 1618, 1621, 1624, 1625, 1633, 1638, 1645, 1646, 1647, 1648, 1649, 1650,
    1651, 1653, 1659, 1661, 1665, 1666, 1668, 1669, 1670, 1671, 1674, 1677, 1678, 1679, 1680, 1682,
}  # fmt: skip
RENUMBERED_SPLIT = "ml-100k"  # the name of the dataset in the paper's split; other splits have other names


def with_items(dataset: Dataset, source: Any) -> Dataset:
    """The dataset with titles and everything else that the file or frame says about its items."""
    label = str(source) if isinstance(source, str | Path) else f"the {type(source).__name__} of items"
    if isinstance(source, str | Path) and Path(source).name in FILM_LISTS and Path(source).is_file():
        films = read_films(Path(source))
        if dataset.name == RENUMBERED_SPLIT:
            films = as_in_split(films)
        return with_titles(dataset, films, label)
    table, from_text = read.read_all_columns(source)
    id_name, title_name = _columns(label, table.column_names)
    ids = col.ids(label, "item", id_name, col.decoded(table.column(id_name)), from_text)
    if ids.null_count:
        raise col.no_id(label, "item", id_name, ids.null_count, pc.index(pc.is_null(ids), True).as_py())
    titles = pc.utf8_trim_whitespace(col.decoded(table.column(title_name)).cast(pa.string()))
    columns = {"title": pc.if_else(pc.equal(titles, ""), pa.scalar(None, pa.string()), titles)}
    columns |= {name: table.column(name) for name in table.column_names if name not in (id_name, title_name)}
    if taken := [name for name in columns if name in OUR_COLUMNS]:
        raise InputError(
            f"{label}: a column '{taken[0]}' besides the ids has a name that Accord uses itself; rename it."
        )
    return _joined(dataset, ids, pa.table(columns), label)


def with_titles(dataset: Dataset, titles: dict[int, str], label: str) -> Dataset:
    """The dataset with titles by item id."""
    return _joined(dataset, pa.array(titles, pa.int64()), pa.table({"title": list(titles.values())}), label)


def _joined(dataset: Dataset, ids: Any, info: pa.Table, label: str) -> Dataset:
    """A row of `info` for each item of the dataset, null where the file has none."""
    repeated = len(ids) - len(pc.unique(ids))
    if repeated:
        raise InputError(f"{label}: {repeated} rows repeat an item id; keep one row for each item.")
    rows = dataset.items.rows(ids)
    present = rows >= 0
    if not present.any():
        raise InputError(f"{label}: none of its {len(rows)} ids is an item of the data; is it the right file?")
    place = np.full(len(dataset.items), -1)
    place[rows[present]] = np.flatnonzero(present)
    aligned = info.take(pa.array(place, mask=place < 0))
    titled = len(aligned) - aligned.column("title").null_count
    note = f"{label}: titles for {titled:,} of {len(aligned):,} items."
    return replace(dataset, item_info=aligned, notes=(*dataset.notes, note))


def _columns(label: str, names: Sequence[str]) -> tuple[str, str]:
    """The names of the id and the title column."""
    ids = [name for name in names if col.simplified(name) == "id" or col.is_usual("item", name)]
    others = {name: col.simplified(name) for name in names if name not in ids}
    titles = [name for name, simplified in others.items() if simplified == "title"]
    titles = titles or [name for name, simplified in others.items() if simplified.endswith(("title", "name"))]
    if len(ids) != 1 or len(titles) != 1 or len(set(names)) < len(names):
        has = col.quoted(names)
        raise InputError(f"{label} must have one column of item ids ('id') and one 'title'; it has {has}.")
    return ids[0], titles[0]


def read_films(path: Path) -> dict[int, str]:
    """MovieLens' titles by MovieLens' ids."""
    mark, encoding, skip = FILM_LISTS[path.name]
    try:
        rows = [line.split(mark) for line in path.read_text(encoding=encoding).splitlines()[skip:] if line]
        titles = {int(row[0]): row[1] for row in rows}
    except (ValueError, IndexError):
        raise InputError(f"{path} is not a list of films in MovieLens' format; download it again.") from None
    if path.name == "ml-100k.item":  # has the year in another column
        titles |= {int(row[0]): f"{row[1]} ({row[2]})" for row in rows if len(row) > 2 and row[2].isdigit()}
    return titles


def as_in_split(films: dict[int, str]) -> dict[int, str]:
    """The same titles under the ids of the paper's split."""
    in_split = [film for film in sorted(films) if film not in LEFT_OUT_OF_SPLIT]
    return {number: films[film] for number, film in enumerate(in_split)}
