"""Whole calls on two cores, by the wall's clock: a part of `run.py`."""

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
