"""MF beside implicit's BPR at equal quality: CPU seconds until the same NDCG@20 is reached, a part of `run.py`.

Both have as many options to choose from. The quality to reach is a little below the best of the worse of the two on the
validation, and each takes the options that reach it first there; then both are trained with these in turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turn import working

import data

Found = dict[str, Any]
DIM, SHARE = 32, 0.99  # of the best that the worse of the two reaches
GRIDS: dict[str, tuple[str, int, list[Found]]] = {  # worker, epochs, options
    "ours": ("ours_curves", 40, [
        {"train.lr": lr, "train.batch_size": batch} for lr in (0.003, 0.01, 0.03, 0.1) for batch in (512, 2048)
    ]),
    "implicit": ("implicit_curves", 200, [
        {"learning_rate": lr, "regularization": l2} for lr in (0.01, 0.02, 0.05, 0.1) for l2 in (0.01, 0.001)
    ]),
}  # fmt: skip
Curve = list[list[float]]  # of each epoch CPU seconds, NDCG on the validation and on the test


def first_at(curve: Curve, quality: float) -> list[float] | None:
    """The point at which the validation has this quality."""
    return next((point for point in curve if point[1] >= quality), None)


def reaching(rounds: int, folder: Path) -> Found:
    cases = {who: (script, {"dim": DIM, "epochs": n, "grid": grid}) for who, (script, n, grid) in GRIDS.items()}
    tried: dict[str, list[Curve]] = {who: [] for who in cases}
    with working(cases, data.split("ml-100k", folder / "log.npz")) as workers:
        for worker in workers.values():
            worker.ask("epoch")
            worker.ask("rank 0")  # imports and compilation
        for number in range(len(GRIDS["ours"][2])):
            for who, worker in workers.items():
                tried[who].append(worker.ask(f"rank {number}")["points"])
        best = {who: max(point[1] for curve in curves for point in curve) for who, curves in tried.items()}
        quality = SHARE * min(best.values())
        found: Found = {"quality": quality, "best": best}
        for who, curves in tried.items():
            points = {k: point for k, curve in enumerate(curves) if (point := first_at(curve, quality)) is not None}
            chosen = min(points, key=lambda k: points[k][0])
            found[who] = {"options": GRIDS[who][2][chosen], "number": chosen, "points": []}
        for _ in range(rounds):
            for who, worker in workers.items():
                curve: Curve = worker.ask(f"rank {found[who]['number']}")["points"]
                point = first_at(curve, quality) or curve[-1]
                found[who]["points"].append([*point, curve.index(point) + 1])
    return found
