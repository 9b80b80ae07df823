"""Solved models at size and beside their peers: parts of `run.py`.

Of models at size each is fitted and judged once, in a process of its own. Peers take turns with ours, a fit or a
ranking each, on the same log, with options that were chosen on its validation; all with one thread.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import torch
from turn import PYTHON, working

import data

Found = dict[str, Any]
MOST_SCORES = 2**28  # of the users who judge a model, where items are many: as in the search of `auto`
# name: the model, and the interactions, users and items of a generated log
SIZES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "ease-9000": ("ease", (1_000_000, 50_000, 9_000)),
    "ease-16000": ("ease", (1_000_000, 50_000, 16_000)),
    "item-knn": ("item-knn", (12_100_000, 1_000_000, 100_000)),
    "sparse-ease": ("sparse-ease", (11_200_000, 1_000_000, 1_000_000)),
}
ALS = [{"alpha": alpha, "regularization": penalty} for alpha in (1, 3) for penalty in (3, 10, 30)]
IALS = [
    {"model.alpha": alpha, "model.penalty": penalty}
    for alpha, penalty in ((0.3, 0.01), (0.1, 0.01), (1, 0.01), (0.3, 0.003), (0.3, 0.03))
]
KNN = {"model.k": 200, "model.balance": 0.5, "model.shrink": 0.0}  # the cosine, as implicit has it
SPARSE = [{"model.l2": l2} for l2 in (100, 300, 1000)]
SANSA = [{"l2": l2, "per_item": 100} for l2 in (3, 10, 30)]
KEPT = ("options", "ndcg", "users", "peak")  # of an answer
LARGE = (500_000, 50_000, 10_000)
# name: our worker's case, the peer, its worker and its case, and the log
PEERS: dict[str, tuple[Found, str, str, Found, str]] = {
    "ials": (
        {"model": "ials", "grid": IALS, "options": {"model.dim": 64, "model.iterations": 15}},
        "implicit",
        "implicit_solved",
        {"model": "als", "grid": ALS, "options": {"factors": 64, "iterations": 15}},
        "ml-100k",
    ),
    "item-knn": (
        {"model": "item-knn", "options": KNN},
        "implicit",
        "implicit_solved",
        {"model": "cosine", "options": {"K": 201}},  # of which one is the item itself
        "large",
    ),
    "sparse-ease": (
        {"model": "sparse-ease", "grid": SPARSE}, "sansa", "sansa_", {"grid": SANSA}, "large",
    ),
    "sparse-ease-ml-100k": (
        {"model": "sparse-ease", "grid": SPARSE}, "sansa", "sansa_", {"grid": SANSA}, "ml-100k",
    ),
}  # fmt: skip


def products() -> float:
    """Multiplications and additions per second of one thread in a product of float32 matrices, the best of several."""
    torch.set_num_threads(1)
    size = 2048
    one, best = torch.ones(size, size), 0.0
    for _ in range(5):
        began = time.process_time()
        one @ one
        best = max(best, 2 * size**3 / (time.process_time() - began))
    return best


def size(name: str, folder: Path) -> Found:
    model, shape = SIZES[name]
    users, items = data.grouped(*shape)
    pairs = data.held_out(folder / "solved.npz", users, items)
    case = {"model": model, "most": max(1, min(20_000, MOST_SCORES // shape[2]))}
    with working({"ours": ("solved", case)}, pairs) as workers:
        fit, judged = (workers["ours"].ask(command) for command in ("epoch", "rank judged"))
    log = {"pairs": len(users), "users": shape[1], "items": shape[2]}
    return {"model": model, "log": log, "fit": fit, "judged": judged, "products": products()}


def ranking(folder: Path) -> Found:
    """Fit and ranking of every solved model on logs of the paper."""
    found: Found = {}
    for name in ("ml-100k", "modcloth"):
        with working({"ours": ("every_solved", {})}, data.split(name, folder / "log.npz")) as workers:
            found[name] = workers["ours"].ask("epoch")
    return {"logs": found}


def peer(name: str, rounds: int, folder: Path) -> Found:
    ours, library, script, theirs, log = PEERS[name]
    found: Found = {"log": log, "peer": library}
    with working({"ours": ("solved", ours), library: (script, theirs)}, _log(log, folder)) as workers:
        for who, worker in workers.items():  # imports, compilation, and the choice of options
            worker.ask("epoch")
            worker.ask("forget")
            found[who] = {"fit": [], "rank": []}
        for _ in range(rounds):
            for command, kept in (("epoch", "fit"), ("rank judged", "rank")):
                for who, worker in workers.items():
                    answer = worker.ask(command)
                    found[who][kept].append([answer["seconds"], answer["cpu"]])
                    found[who] |= {key: answer[key] for key in KEPT if key in answer}
    return found


def installed(name: str) -> bool:
    """Whether the peer of a case is there: SANSA needs CHOLMOD to be built, and is left out where nobody did that."""
    code = f"import {PEERS[name][1]}"
    return subprocess.run([PYTHON[False], "-c", code], capture_output=True, check=False).returncode == 0


def _log(name: str, folder: Path) -> Path:
    path = folder / "log.npz"
    return data.held_out(path, *data.grouped(*LARGE)) if name == "large" else data.split(name, path)
