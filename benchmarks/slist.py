"""`slist` beside `sparse-slist` on logs where both can be solved: NDCG@20 on the validation and CPU seconds of fitting,
with the options that `auto` tries first; a line in slist.jsonl for each.

    python benchmarks/slist.py MovieLens-100k u.data        # of shared/data
    python benchmarks/slist.py MovieTweetings ratings.csv
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import when

import accord
from accord.models.slist import SLIST, SparseSLIST

RESULTS = Path(__file__).with_suffix(".jsonl")
CASES: tuple[tuple[type[Any], dict[str, Any]], ...] = (
    (SLIST, {}), (SparseSLIST, {"model.neighbours": 50}), (SparseSLIST, {}), (SparseSLIST, {"model.neighbours": 200}),
)  # fmt: skip


def main(name: str, log: str) -> None:
    torch.set_num_threads(1)
    data = accord.load(log, split="chronological")
    accord.fit("demo", "item-knn", refit=False)  # compiles the loops
    for kind, options in CASES:
        plain, taken = kind.fit, list[float]()

        def timed(*given: Any, plain: Any = plain, taken: list[float] = taken) -> None:
            start = time.process_time()
            plain(*given)
            taken.append(time.process_time() - start)

        kind.fit = timed
        made = accord.fit(data, kind.name, options=options, refit=False, device="cpu")
        kind.fit = plain
        line = {"log": name, "items": len(data.items), "interactions": len(data.train), "model": kind.name} | options
        line |= {"valid_ndcg@20": made.metrics["runs"][0]["valid_ndcg@20"], "cpu_seconds": round(taken[0], 2)}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | when.measured() | {"processor": when.processor()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
