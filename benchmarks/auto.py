"""What `auto` reaches on logs of different kinds with its default budget: a line for each log in auto.jsonl.

    python benchmarks/auto.py ../shared/data/logs/ciao ../shared/data/ml-100k demo
    python benchmarks/auto.py ml-1m.csv --split random --clean "rating>=5" --name "MovieLens-1M"
    python benchmarks/auto.py ml-1m.csv --split leave-last-out --device cuda [--without slist,next-knn,sasrec]
    python benchmarks/auto.py ../shared/data/logs/yahoo --labels "value>=5" --share 0.05 --draws 10

Every family is there with its best trial by the validation, as the same search tuned it. With --labels, a line in
labels.jsonl for each draw of a share of the labels of training and validation, and one for a run without any.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

import accord
from accord.consensus import search
from accord.consensus.families import FAMILIES, plan_search
from accord.data.interactions import Dataset, Interactions
from accord.evaluation.significance import compare_to
from accord.models.consensus import Member

RESULTS = Path(__file__).with_suffix(".jsonl")


def tuned_ease(recommender: accord.Recommender, data: Dataset, **how: Any) -> dict[str, float]:
    """EASE with the penalty and options that were best on the validation, and p of a paired test over the users."""
    tried = [entry for entry in recommender.metrics["search"]["tried"] if entry["model"] in ("ease", "sparse-ease")]
    best = max(tried, key=lambda entry: entry["valid_ndcg@20"])
    ease = accord.fit(data, best["model"], options=best.get("options"), refit=False, ks=[20], **how)
    ours, theirs = (per_user(made) for made in (recommender, ease))
    return {"test": round(float(theirs.mean()), 5), "p": compare_to(theirs, {"auto": ours})["auto"].p}


def per_user(recommender: accord.Recommender) -> npt.NDArray[np.float64]:
    assert recommender.evaluation is not None
    return recommender.evaluation.per_user["ndcg@20"]


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


def with_labels(data: Dataset, share: float, draw: int) -> Dataset:
    """The data with a share of the labels of its training and validation, drawn at random."""
    rng = np.random.default_rng((1000 + draw, round(share * 1000)))

    def drawn(part: Interactions) -> Interactions:
        given = rng.random(len(part)) < share
        label = np.where(given, part.column("label").astype(np.float64), np.nan)
        return part.without("label").with_column("label", pa.array(label, from_pandas=True))

    return replace(data, train=drawn(data.train), valid=drawn(data.valid), valid_clean=None)


def labelled(name: str, data: Dataset, share: float, draws: int, **how: Any) -> None:
    """A run without labels, and one for each draw of them, with p of a paired test between the two over the users."""
    without: np.ndarray | None = None
    for draw in (None, *range(draws)):
        cpu = time.process_time()
        some = with_labels(data, share if draw is not None else 0.0, draw or 0)
        made = accord.fit(some, refit=False, ks=[20], **how)
        users = per_user(made)
        line = {
            "log": name, "share": share if draw is not None else 0.0, "draw": draw or 0,
            "ndcg@20": round(made.metrics["mean"]["ndcg@20"], 5),
            "valid_ndcg@20": round(made.metrics["runs"][0]["valid_ndcg@20"], 5),
            "votes": {member.label: round(member.weight, 3) for member in made.run.members if member.weight},
            "estimated": made.metrics["search"]["cost_seconds"], "cpu_seconds": round(time.process_time() - cpu, 1),
        }  # fmt: skip
        if without is None:
            without = users
        else:
            line["p_without"] = round(compare_to(without, {"with": users})["with"].p, 4)
        with RESULTS.with_name("labels.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", help="what accord.load takes")
    parser.add_argument("--split", default="auto")
    parser.add_argument("--clean")
    parser.add_argument("--name", help="of the log in the results; by default that of its file or folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--without", default="", help="models that are not tried, separated by commas")
    parser.add_argument("--labels", help="which interactions are real: some of these labels are given")
    parser.add_argument("--share", type=float, default=0.05, help="of the labels that are given")
    parser.add_argument("--draws", type=int, default=10, help="of the labels")
    given = parser.parse_args()
    how = {"device": given.device, "budget": given.budget}
    tried = [family for family in FAMILIES if family.model not in given.without.split(",")]
    search.plan_search = partial(plan_search, families=tried)
    for log in given.logs:
        data = accord.load(log, split=given.split, clean=given.clean, labels=given.labels)
        if given.labels:
            labelled(given.name or data.name, data, given.share, given.draws, **how)
            continue
        began, cpu = time.perf_counter(), time.process_time()
        recommender = accord.fit(data, refit=False, ks=[10, 20], **how)
        line = measured(recommender, time.perf_counter() - began, time.process_time() - cpu)
        line["ease"] = tuned_ease(recommender, data, device=given.device)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"log": given.name or data.name, **line}) + "\n")


if __name__ == "__main__":
    main()
