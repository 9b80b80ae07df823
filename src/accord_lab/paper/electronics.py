"""The training set of the paper's Electronics: the rows of a public table that its other files do not hold out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from accord.data import catalog, read
from accord.data.columns import Columns
from accord.data.download import download, write_file
from accord.data.interactions import Interactions
from accord.errors import InputError

TABLE = "https://raw.githubusercontent.com/MengtingWan/marketBias/master/data/df_electronics.csv"
ROWS = 1_292_954


def complete(name: str) -> None:
    """Add the training set to the files of the split, where only it is missing."""
    if name != "electronics" or catalog.location(name) is not None:
        return
    entry, folder = catalog.entry(name), catalog.cache_folder() / name
    entry.sources[0].fetch(name, entry.split, folder)
    # The table's sha256 is not recorded (its source could not be reached when this was written); instead its rows are
    # counted, and every held-out row must be among them.
    table = download(TABLE, folder / "df_electronics.csv", None)
    source, _ = read.read_table(table, Columns(user="user_id", item="item_id", value="rating"), merge=False)
    held_out = [read.read_part(folder / f"electronics.{part}") for part in ("valid.rating", "test.noisy")]
    rows = without(_triples(source), [row for part in held_out for row in _triples(part)], ROWS, str(table))
    content = "".join(f"{user}\t{item}\t{value:g}\n" for user, item, value in rows)
    write_file(folder / "electronics.train.rating", content.encode())
    table.unlink()


def _triples(rows: Interactions) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.table.column(name).to_pylist() for name in ("user", "item", "value")), strict=True))


def without(rows: Sequence[Any], held_out: Sequence[Any], expected: int, label: str) -> list[Any]:
    """The rows that are not held out; InputError unless every held-out row is among them."""
    if len(rows) != expected:
        raise InputError(f"{label} has {len(rows)} rows, not {expected}; it is not the file that was split: remove it.")
    left, train = Counter(held_out), []
    for row in rows:
        if left[row]:
            left[row] -= 1
        else:
            train.append(row)
    if lacking := left.total():
        raise InputError(
            f"{label} lacks {lacking} of the {len(held_out)} held-out rows; it is not the file that was split: remove"
            " it."
        )
    return train
