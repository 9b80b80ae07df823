"""What `auto` reaches on logs of different kinds with its default budget: a line for each log in auto.jsonl.

    python benchmarks/auto.py ../shared/data/logs/ciao ../shared/data/ml-100k demo
    python benchmarks/auto.py ml-1m.csv --split random --clean "rating>=5" --name "MovieLens-1M"

Every family is there with its best trial by the validation, as the same search tuned it.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import torch

import accord
from accord.models.consensus import Member

RESULTS = Path(__file__).with_suffix(".jsonl")


def measured(recommender: accord.Recommender, seconds: float, cpu: float) -> dict[str, object]:
    metrics = recommender.metrics
    families: dict[str, dict[str, float]] = {}
    votes: dict[str, float] = {}
    for entry in metrics["members"]:
        family = Member(**{key: entry[key] for key in ("model", "method") if key in entry}).label
        votes[family] = round(votes.get(family, 0) + (entry.get("weight") or 0), 4)
        figures = {part: round(entry[f"{part}_ndcg@20"], 5) for part in ("valid", "test")}
        if family not in families or figures["valid"] > families[family]["valid"]:
            families[family] = figures
    return {
        "test": {name: round(value, 5) for name, value in metrics["mean"].items()},
        "valid_ndcg@20": round(metrics["runs"][0]["valid_ndcg@20"], 5),
        "families": families,
        "votes": {family: vote for family, vote in votes.items() if vote},
        "budget": metrics["search"]["budget"], "estimated": metrics["search"]["cost_seconds"],
        "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", help="what accord.load takes")
    parser.add_argument("--split", default="auto")
    parser.add_argument("--clean")
    parser.add_argument("--name", help="of the log in the results; by default that of its file or folder")
    given = parser.parse_args()
    for log in given.logs:
        data = accord.load(log, split=given.split, clean=given.clean)
        began, cpu = time.perf_counter(), time.process_time()
        recommender = accord.fit(data, device="cpu", refit=False, ks=[20])
        line = measured(recommender, time.perf_counter() - began, time.process_time() - cpu)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"log": given.name or data.name, **line}) + "\n")


if __name__ == "__main__":
    main()
