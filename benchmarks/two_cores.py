"""Whole calls on two cores, by the wall's clock, and exact lists over many items by one thread: parts of `run.py`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import solved
from turn import HERE, PYTHON, THREADS, working

import data

CORES = 2
EASE = ("ease-9000", "ease-16000")  # of solved.SIZES
ML_100K = dict(zip(("interactions", "users", "items"), data.ML_100K, strict=True))
MOVIELENS_1M = {"users": 6_040, "items": 3_706, "interactions": 1_000_209}
WAYS = ("now", "before", "products")  # to make lists
LISTS = 200_000, 2_000, 100_000  # pairs, users and items
Found = dict[str, Any]


@contextlib.contextmanager
def _pinned() -> Iterator[None]:
    """Processes that are started here have two cores, where the machine has more."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _whole(case: Found) -> Found:
    command = [PYTHON[True], HERE / "workers" / "whole.py", json.dumps(case)]
    env = {**os.environ, **dict.fromkeys(THREADS, str(CORES))}
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    found: Found = json.loads(made.stdout.splitlines()[-1])
    return found


def whole(folder: Path) -> Found:
    """EASE fitted and evaluated, an audit of ml-100k, and `auto` on a log of MovieLens-1M's shape."""
    found: Found = {"products": solved.products()}
    with _pinned():
        for name in EASE:
            model, shape = solved.SIZES[name]
            pairs = data.held_out(folder / "pairs.npz", *data.grouped(*shape))
            with working({"ours": ("solved", {"model": model})}, pairs, CORES) as workers:
                fit, judged = (workers["ours"].ask(command) for command in ("epoch", "rank judged"))
            found[name] = {"items": shape[2], "fit": fit, "judged": judged}
        found["audit"] = _whole({"call": "audit", "shape": ML_100K, "device": "cpu", "processes": CORES})
        found["auto"] = _whole({"call": "auto", "shape": MOVIELENS_1M, "device": "cpu"})
    return found


def lists(rounds: int, folder: Path) -> Found:
    """The exact lists of an untrained GMF: as they are made, as they were once, and the products alone, in turn."""
    pairs, case = data.write(folder / "lists.npz", *data.generated(*LISTS)), {"dim": 32}
    found: Found = {way: [] for way in WAYS}
    with working({way: ("lists", case | {"way": way}) for way in WAYS}, pairs) as workers:
        for number in range(2 * rounds + 1):
            for way, worker in workers.items():
                answer = worker.ask("epoch")
                if number:  # the first time compiles
                    found[way].append(answer)
    return {"case": case, "users": LISTS[1], "items": LISTS[2], "ways": found}
