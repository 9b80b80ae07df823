"""What `auto` takes on logs of the shapes that people have: one JSON file for each, `shapes/NAME.json`.

Games bought, shop views, anime watched, books read and coats rated are drawn at random, as many interactions, items
and users as such logs have, with what these say of some interactions: hours, events, ratings and codes for "not rated".

    python benchmarks/shapes.py games --labels --budget 120 --out benchmarks/shapes
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

ACCORD = [sys.executable, "-m", "accord"]
GROUPS, LOYAL = 40, 0.6  # of items; the share of interactions that are of a user's own groups
TOOK = re.compile(r"(\w+) ([\d,.]+) s")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    rows: int
    users: int
    items: int
    column: str  # what says which interactions are real
    options: tuple[str, ...]  # that say so at the command line


SHAPES = {
    "games": Shape(129_000, 12_000, 5_000, "hours", ("--labels", "hours>=2; hours<0.5")),
    "views": Shape(78_000, 12_000, 24_000, "event", ("--events", "view=?,cart=0.7,buy=1")),
    "anime": Shape(521_000, 8_000, 6_000, "rating", ("--labels", "rating>=7", "--unknown", "-1")),
    "books": Shape(280_000, 12_000, 20_000, "rating", ("--labels", "rating>=8; rating<=5", "--unknown", "0")),
    "coats": Shape(6_960, 290, 300, "rating", ("--labels", "rating>=4; rating<=2")),
}


def drawn(shape: Shape, seed: int = 0) -> pa.Table:
    """A log of a shape: activity and popularity have long tails, and most interactions are of a user's groups."""
    rng = np.random.default_rng(seed)
    popularity = 1 / (20 + np.arange(shape.items)) ** 0.9
    group = rng.integers(0, GROUPS, shape.items)
    taste = rng.integers(0, GROUPS, (shape.users, 3))
    in_group = [np.flatnonzero(group == number) for number in range(GROUPS)]
    pairs = np.arange(0)
    activity = rng.lognormal(0, 1, shape.users)
    every = np.concatenate([rng.integers(0, shape.users, shape.items) * shape.items + np.arange(shape.items)])
    while len(pairs) < shape.rows:
        users = rng.choice(shape.users, shape.rows, p=activity / activity.sum())
        items = rng.choice(shape.items, shape.rows, p=popularity / popularity.sum())
        chosen = taste[users, rng.integers(0, 3, shape.rows)]
        for number, members in enumerate(in_group):
            mine = np.flatnonzero((chosen == number) & (rng.random(shape.rows) < LOYAL))
            weights = popularity[members] / popularity[members].sum()
            items[mine] = rng.choice(members, len(mine), p=weights)
        pairs = np.unique(np.concatenate([pairs, every, users * shape.items + items]))
    if len(pairs) > shape.rows:  # what makes every item occur stays
        others = np.setdiff1d(pairs, every)
        pairs = np.concatenate([every, rng.permutation(others)[: shape.rows - len(every)]])
    pairs = rng.permutation(pairs)
    users, items = pairs // shape.items, pairs % shape.items
    liked = (taste[users] == group[items][:, None]).any(1)
    score = np.clip(rng.normal(np.where(liked, 0.7, 0.4), 0.2), 0, 0.999)  # how much a user likes an item
    log = {"user": users + 1, "item": items + 1, shape.column: said(shape.column, score, shape, rng)}
    if shape.column == "event":
        log["timestamp"] = 1_600_000_000 + rng.integers(0, 10_000_000, len(pairs))
    return pa.table(log)


def said(column: str, score: Floats, shape: Shape, rng: np.random.Generator) -> npt.NDArray[Any]:
    """What the log says of each interaction."""
    if column == "hours":
        return np.round(np.exp(6 * score - 3) * rng.lognormal(0, 0.5, len(score)), 1)
    if column == "event":
        return np.array(["view", "cart", "buy"])[np.digitize(score * rng.random(len(score)), [0.6, 0.75])]
    if shape.rows < 10_000:
        return (1 + 5 * score).astype(int)
    code, share = (-1, 0.2) if "-1" in shape.options else (0, 0.62)  # of what is not rated
    return np.where(rng.random(len(score)) < share, code, (1 + 10 * score).astype(int))


def measured(arguments: list[str]) -> tuple[dict[str, float], str]:
    """Seconds by the clock and of CPU, and the most memory in megabytes, of a program; and what it said."""
    began = time.perf_counter()
    compiled = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as an installation is
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=compiled)
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(text)
    figures = {"wall": time.perf_counter() - began, "cpu": usage.ru_utime + usage.ru_stime}
    return {**{k: round(v, 2) for k, v in figures.items()}, "peak_mb": round(usage.ru_maxrss / 1024)}, text


def least(arguments: list[str], times: int = 3) -> tuple[dict[str, float], str]:
    """The same, of the run that took the least CPU time."""
    return min((measured(arguments) for _ in range(times)), key=lambda one: one[0]["cpu"])


LOAD = "import sys, time, accord; began = time.process_time(); accord.Recommender.load(sys.argv[1]); \
print(time.process_time() - began)"


def shape_results(name: str, labels: bool, budget: float) -> dict[str, Any]:
    shape = SHAPES[name]
    with TemporaryDirectory() as place:
        log, run = Path(place, f"{name}.csv"), Path(place, "run")
        pyarrow.csv.write_csv(drawn(shape), log)
        options = [*(shape.options if labels else ()), "--budget", f"{budget:g}", "--out", str(run)]
        train, text = measured([*ACCORD, "train", str(log), *options])
        took = next(line for line in text.splitlines() if line.startswith("took "))
        results: dict[str, Any] = {
            "rows": shape.rows, "users": shape.users, "items": shape.items, "labels": labels, "budget": budget,
            "log_bytes": log.stat().st_size, "run_bytes": sum(file.stat().st_size for file in run.rglob("*.*")),
            "train": train, "took": {part: float(value.replace(",", "")) for part, value in TOOK.findall(took)},
        }  # fmt: skip
        metrics = json.loads((run / "metrics.json").read_text())
        results |= {"ndcg@20": metrics["mean"]["ndcg@20"], "cost_seconds": metrics["search"]["cost_seconds"]}
        results |= {"tried": len(metrics["search"]["tried"]), "notes": metrics.get("notes", [])}
        results["import_torch"], _ = least([sys.executable, "-c", "import torch"])
        results["load"], seconds = least([sys.executable, "-c", LOAD, str(run)])
        results["load"]["cpu_of_load"] = round(float(seconds.splitlines()[-1]), 2)
        results["recommend"], _ = least([*ACCORD, "recommend", str(run), "--user", "1"])
        results["files"] = {file.name: file.stat().st_size for file in run.iterdir() if file.is_file()}
        if os.environ.get("SAID"):
            print(text, file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("--labels", action="store_true", help="say which interactions are real")
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "shapes", help="folder of the results")
    given = parser.parse_args()
    results = shape_results(given.name, given.labels, given.budget)
    results["machine"] = f"{platform.processor() or platform.machine()}, {os.environ.get('OMP_NUM_THREADS')} threads"
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / f"{given.name}{'-labels' if given.labels else ''}.json"
    file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
