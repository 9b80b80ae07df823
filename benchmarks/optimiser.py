"""Whether the decoupled optimiser recommends as well as Adam: both equally tuned, with the same seeds, tested by user.

    ACCORD_DATA=... python benchmarks/optimiser.py DATASET MODEL [--methods NAME ...] [--results FILE]
    python benchmarks/optimiser.py DATASET MODEL --leaderboards ADAM DECOUPLED      of two that are there already

One line of results for each method: NDCG@20 and the time of both, and the paired test of their difference. Lines are
added to the file, so a process for each dataset and model can run at once; of a cell that is there twice, the last
counts. `python benchmarks/page.py` shows them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import when

from accord.comparing.compare import Cell, Request, compare, keys_of
from accord.comparing.results import Results
from accord.data.load import load_named
from accord.evaluation.significance import compare_to
from accord_lab.comparing.tuning import tuned

RESULTS = Path(__file__).with_name("optimiser.jsonl")
OLD, NEW = "adam", "decoupled"
METHODS = "normal", "deca"
METRIC = "ndcg@20"


def trained(request: Request, cell: Cell, trials: int) -> tuple[dict[str, Any], np.ndarray]:
    """What is known of the best of the trials of a cell, and the metric of every user: [seeds, users]."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tries, results = Results(Path(folder), "tuning"), Results(Path(folder))
        (chosen,) = tuned(request, [cell], trials, tries)
        took = time.perf_counter() - began
        compare(request, [chosen], results)
        keys = keys_of(request, chosen)
        per_user, lines = results.per_user(METRIC), results.by_key()
        users = np.stack([per_user[key] for key in keys])
        mean, sd = float(users.mean()), float(users.mean(1).std(ddof=1))
        line = lines[keys[0]]
        found = {
            "mean": mean,
            "sd": sd,
            "valid": float(np.mean([lines[key]["valid_ndcg@20"] for key in keys])),
            "epochs": float(np.mean([lines[key]["epochs"] for key in keys])),
            "train_seconds": float(np.sum([lines[key]["seconds"] for key in keys])),
            "tuning_seconds": took,
            "options": {name: value for name, value in line["settings"].items() if name in dict(chosen.options)},
        }
    return found | {"device": line["device"]}, users


def on_leaderboard(folder: Path, dataset: str, model: str) -> dict[str, tuple[dict[str, Any], np.ndarray]]:
    """The same of each method of a model on a finished leaderboard."""
    results = Results(folder, "leaderboard")
    per_user, rows = results.per_user(METRIC), {}
    for key, line in results.by_key().items():
        if (line["dataset"], line["model"]) == (dataset, model):
            rows.setdefault(line["method"], {})[line["seed"]] = line, per_user[key]
    found = {}
    for method, by_seed in rows.items():
        lines, values = zip(*(by_seed[seed] for seed in sorted(by_seed)), strict=True)
        users, options = np.stack(values), {"train.l2": lines[0]["settings"]["train.l2"]}
        mean, sd = float(users.mean()), float(users.mean(1).std(ddof=1))
        valid, epochs = (float(np.mean([line[name] for line in lines])) for name in ("valid_ndcg@20", "epochs"))
        known = {"mean": mean, "sd": sd, "valid": valid, "epochs": epochs, "options": options}
        found[method] = known | {"device": lines[0]["device"]}, users
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("dataset")
    options.add_argument("model")
    options.add_argument("--methods", nargs="+", default=METHODS)
    options.add_argument("--trials", type=int, default=16)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--epochs", type=int)
    options.add_argument("--leaderboards", type=Path, nargs=2, metavar=("ADAM", "DECOUPLED"))
    options.add_argument("--results", type=Path, default=RESULTS)
    given, rests_on = options.parse_args(), when.measured()  # now: the code that is loaded is of this commit
    if given.leaderboards:
        before, after = (on_leaderboard(folder, given.dataset, given.model) for folder in given.leaderboards)
        for method, found in after.items():
            write(given, rests_on, method, {OLD: before[method], NEW: found})
        return
    data = load_named(given.dataset)
    request = Request(data, seeds=given.seeds, epochs=given.epochs, ks=(20,), say=lambda _text: None)
    by = {kind: replace(request, common=(("protocol.optimiser", kind),)) for kind in (OLD, NEW)}
    for method in given.methods:
        sides = {kind: trained(own, Cell(given.model, method), given.trials) for kind, own in by.items()}
        write(given, rests_on, method, sides)


def write(
    given: argparse.Namespace,
    rests_on: dict[str, Any],
    method: str,
    sides: dict[str, tuple[dict[str, Any], np.ndarray]],
) -> None:
    test = compare_to(sides[OLD][1], {NEW: sides[NEW][1]})[NEW]
    cell = {name: getattr(given, name) for name in ("dataset", "model")} | {"method": method}
    how = {"trials": given.trials, "seeds": len(sides[NEW][1])}
    line = cell | how | rests_on | {kind: found for kind, (found, _) in sides.items()} | {"test": asdict(test)}
    with given.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(
        f"{given.dataset} {given.model} + {method}: {sides[OLD][0]['mean']:.4f} with {OLD}, "
        f"{sides[NEW][0]['mean']:.4f} with {NEW}, p = {test.p:.2g}",
        flush=True,
    )


if __name__ == "__main__":
    main()
