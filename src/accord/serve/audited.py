"""The results of an audit folder, for the page and for the histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import Argument, InputError
from accord.io.files import read_json
from accord.io.parquet import read_table
from accord.recommender.recommender import Recommender

COLUMNS = ("p_real", "low", "high")


class Audited:
    """The audit's summary, and its interactions by row numbers of the run, the most probable noise first."""

    def __init__(self, folder: Path, recommender: Recommender) -> None:
        if not (folder / "summary.json").is_file():
            raise InputError(
                Argument("audit", folder), ": there is no summary.json; give the folder that `accord audit` wrote."
            )
        self.summary: dict[str, Any] = read_json(folder / "summary.json")
        table = read_table(folder / "interactions.parquet")
        if self.summary.get("kind") != "audit" or not {"user", "item", *COLUMNS} <= set(table.column_names):
            raise InputError(
                Argument("audit", folder), " is not the folder of an audit; give the one that `accord audit` wrote."
            )
        rows = {"user": recommender.users.rows(table["user"]), "item": recommender.items.rows(table["item"])}
        figures = {name: np.round(table[name].to_numpy().astype(np.float64), 4) for name in COLUMNS}
        in_run = (pc.field("user") >= 0) & (pc.field("item") >= 0)
        self.table = pa.table(rows | figures).filter(in_run).sort_by("p_real")
        if not len(self.table):
            raise InputError(
                Argument("audit", folder), " is of other data than the run: they have no users or no items in common."
            )

    def find(self, **rows: int | None) -> pa.Table:
        """The interactions of a user and an item, by row number (None: any user, any item)."""
        table = self.table
        for name, row in rows.items():
            if row is not None:
                table = table.filter(pc.field(name) == row)
        return table
