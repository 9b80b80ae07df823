"""The results of an audit folder, for the page and for the histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from accord.errors import InputError
from accord.io.files import read_json, read_table
from accord.recommender.recommender import Recommender

COLUMNS = ("p_real", "low", "high")


class Audited:
    """The audit's summary, and its interactions sorted by the rows that their users have in the run."""

    def __init__(self, folder: Path, recommender: Recommender) -> None:
        if not (folder / "summary.json").is_file():
            raise InputError(f"--audit {folder}: there is no summary.json; give the folder that `accord audit` wrote.")
        self.summary: dict[str, Any] = read_json(folder / "summary.json")
        table = read_table(folder / "interactions.parquet")
        missing = {"user", "item", *COLUMNS} - set(table.column_names)
        if missing or self.summary.get("kind") != "audit":
            raise InputError(f"--audit {folder} is not the folder of an audit; give the one that `accord audit` wrote.")
        users, items = recommender.users.rows(table.column("user")), recommender.items.rows(table.column("item"))
        if not ((users >= 0) & (items >= 0)).any():
            raise InputError(
                f"--audit {folder} is of other data than the run: they have no users or no items in common."
            )
        order = np.argsort(users, kind="stable")
        self.users, self.items = users[order], items[order]
        figures = np.stack([table.column(name).to_numpy() for name in COLUMNS], 1)
        self.figures = np.round(figures[order].astype(np.float64), 4)
        known = np.flatnonzero((self.users >= 0) & (self.items >= 0))
        self._noisiest_first = known[np.argsort(self.figures[known, 0], kind="stable")]

    def of_user(self, row: int) -> dict[int, dict[str, float | None]]:
        """p_real, low and high by the row of the item."""
        first, last = np.searchsorted(self.users, [row, row + 1])
        return {int(self.items[place]): self._row(place) for place in range(first, last)}

    def find(self, user: int | None, item: int | None, surest: bool, limit: int, offset: int) -> tuple[int, list[Any]]:
        """How many interactions a user and an item have (None: any user, any item), and some of them in order."""
        places = self._noisiest_first
        if user is not None:
            places = places[self.users[places] == user]
        if item is not None:
            places = places[self.items[places] == item]
        chosen = (places[::-1] if surest else places)[offset : offset + limit]
        return len(places), [(int(self.users[p]), int(self.items[p]), self._row(p)) for p in chosen]

    def _row(self, place: int) -> dict[str, float | None]:
        return {
            name: float(value) if np.isfinite(value) else None
            for name, value in zip(COLUMNS, self.figures[place], strict=True)
        }
