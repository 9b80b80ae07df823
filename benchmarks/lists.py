"""Exact lists over many items, by one thread: a part of `run.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turn import working

import data

WAYS = ("now", "before", "products")
SHAPE = 200_000, 2_000, 100_000  # pairs, users and items
Found = dict[str, Any]


def lists(rounds: int, folder: Path) -> Found:
    """The exact lists of an untrained GMF: as they are made, as they were once, and the products alone, in turn."""
    pairs, case = data.write(folder / "lists.npz", *data.generated(*SHAPE)), {"dim": 32}
    found: Found = {way: [] for way in WAYS}
    with working({way: ("lists", case | {"way": way}) for way in WAYS}, pairs) as workers:
        for number in range(2 * rounds + 1):
            for way, worker in workers.items():
                answer = worker.ask("epoch")
                if number:  # the first time compiles
                    found[way].append(answer)
    return {"case": case, "users": SHAPE[1], "items": SHAPE[2], "ways": found}
