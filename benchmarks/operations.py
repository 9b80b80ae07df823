"""Where the CPU seconds of an epoch of ours go, which bounds what can be reached: the part `operations` of run.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turn import working

import data

CASES: dict[str, dict[str, Any]] = {
    "neumf": {"model": "neumf", "method": "normal", "dim": 32, "batch": 2048, "runs": 1},
    "cdae": {"model": "cdae", "method": "normal", "dim": 32, "batch": 256, "runs": 1},
    "stack": {"model": "gmf", "method": "deca", "dim": 32, "batch": 2048, "runs": 16},
}
PRODUCTS, DOTS, ADAM = "products", "dot products of pairs and their gradients", "Adam"
# operations by torch's names, and ours by the names of their functions
KINDS = {
    PRODUCTS: ("aten::mm", "aten::bmm", "aten::addmm", "aten::addmm_", "aten::baddbmm"),
    "sums of rows and their gradients": ("_PairSum", "_PairSumBackward"),
    ADAM: ("aten::_fused_adam_",),
    "lookups and their gradients": ("_TakeRows", "_TakeRowsBackward"),
    "activations": ("aten::relu_", "aten::clamp_min_", "aten::threshold_backward"),
    DOTS: ("_PairDot", "_PairDotBackward"),
    "sums over histories and their gradients": ("_HistorySums", "_HistorySumsBackward"),
    "random numbers": ("aten::uniform_", "aten::random_"),
}


def operations(folder: Path) -> dict[str, Any]:
    """Of each case the CPU seconds of an epoch, and of one with the profiler those of each kind of operation."""
    name, users, items = data.ml_100k()
    pairs = data.write(folder / "pairs.npz", users, items)
    found: dict[str, Any] = {"data": name}
    for key, case in CASES.items():
        with working({key: ("operations", case)}, pairs) as workers:
            answer = workers[key].ask("epoch")
        own = answer["operations"]
        kinds = {kind: sum(own.get(one, 0.0) for one in names) for kind, names in KINDS.items()}
        taken = {kind: took for kind, took in kinds.items() if took}
        found[key] = {"epoch": answer["epoch"], "all": sum(own.values()), "kinds": taken}
    return found
