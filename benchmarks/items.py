"""How well items are recommended that were held out whole, as `accord evaluate RUN --new-items` has it: a line in
items.jsonl for each model and draw of a tenth of the items, with p of paired tests of recall against the two rules.

    python benchmarks/items.py MovieTweetings ratings.csv items.csv item-knn ials     # of shared/data/logs
    python benchmarks/items.py Coat user.csv items.csv item-knn ials ease

Only a half of the items, by a hash of their ids, is drawn from: the settings were chosen on draws from the other half.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import accord
from accord.consensus.families import FAMILIES
from accord.evaluation.significance import compare_to
from accord.recommender import held_out_items

RESULTS = Path(__file__).with_suffix(".jsonl")
DRAWS = range(5)


def half(data: accord.Dataset) -> npt.NDArray[np.bool_]:
    """Which items are drawn from."""
    return np.array([hashlib.md5(str(one).encode()).digest()[0] % 2 == 1 for one in data.items.ids.to_pylist()])


def measure(name: str, log: str, items: str, models: list[str]) -> None:
    data = accord.load(log, items=items)
    plain, seen = held_out_items.evaluate, list[npt.NDArray[np.float64]]()

    def watched(*given: object) -> object:
        found = plain(*given)
        seen.append(found.per_user["recall@20"])
        return found

    held_out_items.evaluate = watched
    for model in models:
        first = {} if model == "auto" else dict(next(family for family in FAMILIES if family.model == model).options)
        made = accord.fit(data, model, options=first, refit=False)
        for draw in DRAWS:
            seen.clear()
            found = held_out_items.evaluate_new_items(made, half(data), draw)
            ours, *rules = seen[:3]
            p = [compare_to(theirs, {"ours": ours})["ours"].p for theirs in rules]
            line = {"log": name, "model": model, "draw": draw, **found, "p": p}
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    measure(*sys.argv[1:4], sys.argv[4:])
