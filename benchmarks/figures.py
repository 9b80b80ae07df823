"""Figures from the results: medians, ratios, extrapolated epochs, limits; and how they are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gpu
import numpy as np

from accord.evaluation.significance import holm
from accord.training.plan import LONG

NAMES = {
    "ours": "Accord",
    "recbole": "RecBole",
    "cornac": "Cornac",
    "implicit": "implicit",
    "sansa": "sansa",
    "products": "products alone",
}
HERE = Path(__file__).parent
ONCE = json.loads((HERE / "once.json").read_text(encoding="utf-8"))
KERNELS = [json.loads(line) for line in (HERE / "kernels.jsonl").read_text(encoding="utf-8").splitlines()]
ON_XEON = json.loads((HERE / "xeon.json").read_text(encoding="utf-8"))  # parts of run.py on another machine
GPU_COPY: float = ONCE["gpu_copy"]["bytes_per_second"]  # read and written
GPU_PRODUCTS: float = ONCE["gpu_products"]["per_second"]
GPU_SHAPES = {  # of the training pairs, where the tables are larger than the caches: users, items, pairs, runs
    "adressa-gmf-deca": (212_231, 6_596, 419_491, 1),
    "grid-144": (944, 1_611, 79_619, 144),
    "electronics-shape": (1_157_633, 9_560, 1_030_000, 1),
}
DIM, BATCH = 32, 2048  # of these cases
WIDE = 128  # of the tables of NeuMF's MLP
Results = dict[str, Any]
Times = Sequence[Sequence[float]]  # [wall, CPU] of each turn


class Limit(NamedTuple):
    case: str
    bytes: float  # per step
    least: float  # seconds per step
    took: float
    later: float | None = None  # in the epochs after the first


def seconds(value: float) -> str:
    return f"{value:#.3g}".removesuffix(".") if value < 1000 else f"{value:.0f}"


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.2f} GB"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def median(times: Times, clock: int) -> float:
    """Clock 0 is the wall's, 1 the processor's."""
    return float(np.median([one[clock] for one in times]))


def cpu_of(times: Times) -> float:
    return median(times, 1)


def spread(times: Times, clock: int = 1) -> str:
    """Median and quartiles."""
    values = [one[clock] for one in times]
    low, middle, high = np.percentile(values, [25, 50, 75])
    return seconds(middle) if len(values) == 1 else f"{seconds(middle)} ({seconds(low)}–{seconds(high)})"


def ratio(results: Results, part: str, library: str, command: str) -> float:
    """How many times our CPU seconds another takes: the median over the rounds."""
    ours, theirs = (results[part]["libraries"][name][command] for name in ("ours", library))
    return float(np.median([their[1] / our[1] for our, their in zip(ours, theirs, strict=True)]))


def peers_of(results: Results, part: str) -> list[str]:
    return [name for name in results[part]["libraries"] if name not in ("ours", "products")]


def epoch_of(measured: Results) -> tuple[float, float]:
    """[wall, CPU] seconds of an epoch, extrapolated where not all of its steps were taken.

    Drawing, and looking at every row at the end, are done once an epoch; the rest is proportional to the steps.
    """
    factor = measured["of"] / measured["taken"]
    wall, cpu = (
        measured["draw"][k]
        + measured["look"][k]
        + factor * (measured["steps"][k] + measured["settle"][k] - measured["look"][k])
        for k in (0, 1)
    )
    return wall, cpu


def sizes_of(results: Results) -> dict[str, list[Results]]:
    """The logs of several sizes by kind: with tables that grow, by both optimisers."""
    size = results["size"]
    return {
        "fixed": size["fixed"],
        "growing": size["growing"],
        "decoupled": [one | one["decoupled"] for one in size["growing"]],
    }


def by_default(results: Results) -> list[Results]:
    """Those with tables that grow, by the optimiser that the corrected protocol has for each."""
    measured, case = sizes_of(results), results["size"]["case"]
    return [
        apart if max(one["users"], one["items"]) / case["batch"] > LONG else one
        for one, apart in zip(measured["growing"], measured["decoupled"], strict=True)
    ]


def slope(sizes: Sequence[Results]) -> float:
    """Of CPU seconds against interactions, both as logarithms."""
    pairs, cost = [np.log(one["pairs"]) for one in sizes], [np.log(epoch_of(one)[1]) for one in sizes]
    return float(np.polyfit(pairs, cost, 1)[0])


def optimisers_of(lines: Sequence[Results]) -> list[Results]:
    """The comparison of each cell that was measured last, with its p corrected for all of them (Holm)."""
    last = {(line["dataset"], line["model"], line["method"]): line for line in lines}
    cells = [last[key] for key in sorted(last)]
    corrected = holm([cell["test"]["p"] for cell in cells])
    return [cell | {"p": p} for cell, p in zip(cells, corrected, strict=True)]


def products_share(results: Results, part: str) -> float:
    """Of our epoch, what the matrix products alone would take."""
    return ratio(results, part, "products", "epoch")


def dense_share(results: Results) -> float:
    """The time that dense Adam needs at the full speed of memory, over the time that row by row takes."""
    measured = results["electronics"]
    least = 32 * measured["rows"][0]["elements"] / max(measured["copy"]) * measured["rows"][0]["of"]
    return least / cpu_of([epoch_of(one) for one in measured["rows"]])


def gpu_runs(lines: Sequence[Results]) -> tuple[list[Results], list[Results], list[Results]]:
    """What each call of gpu.py ran on, its cases over all calls, and the first trainings of new processes.

    Of a case the seconds are medians over the calls, `trains` all of them; what only some calls measured is theirs.
    """
    on = [line for line in lines if "device" in line]
    cases: dict[str, list[Results]] = {}
    for line in lines:
        if "case" in line:
            cases.setdefault(line["case"], []).append(line)
    merged = []
    for calls in cases.values():
        middle = {key: float(np.median([one[key] for one in calls])) for key in ("train", "rank", "first")}
        merged.append({key: value for one in calls for key, value in one.items()} | middle)
        merged[-1]["trains"] = [one["train"] for one in calls]
    return on, merged, [line for line in lines if "cold" in line]


def moved_on_gpu(elements: float, of_users: float) -> float:
    """Bytes of a step on tables of so many numbers, by pairs whose users' rows are so many, and whose items' as many:
    Adam's pass, the rows forward and back, and what is cleared of the gradient."""
    return 28 * elements + 32 * of_users + 4 * min(elements, 2 * of_users)


def gpu_limits(lines: Sequence[Results]) -> list[Limit]:
    limits = []
    for line in lines:
        if line["case"] in GPU_SHAPES:
            users, items, pairs, runs = GPU_SHAPES[line["case"]]
            elements = 3 * DIM * (users + items) * runs
            moved = moved_on_gpu(elements, 3 * DIM * 2 * BATCH * runs)
            batches = -(-pairs // BATCH)
            epochs, later = gpu.TARGETS[line["case"]][3], line.get("later")
            took = line["train"] / epochs / batches
            limits.append(Limit(line["case"], moved, moved / GPU_COPY, took, later and later / batches))
    return limits


class Bound(NamedTuple):
    what: str
    by: str  # what takes longest at the full speed of the device
    least: float  # seconds
    took: float


def _bound(what: str, moved: float, operations: float, took: float) -> Bound:
    times = {"bytes": moved / GPU_COPY, "products": operations / GPU_PRODUCTS}
    by = max(times, key=lambda name: times[name])
    return Bound(what, by, times[by], took)


def other_bounds(lines: Sequence[Results]) -> list[Bound]:
    """Of DeCA(p) and NeuMF, a whole training; of every case whose ranking was measured with its sizes, that.

    A training moves what is stated for the limit of GMF with DeCA: of DeCA(p), first one network and then two, with the
    frozen one's rows; NeuMF has the MLP's tables, and its products once forward and twice back. Ranking writes a score
    of each item for each user and reads it once.
    """
    users, items, pairs, _ = GPU_SHAPES["grid-144"]
    steps, bounds = -(-pairs // BATCH), []
    every, looked_up = 32 * (users + items), 32 * 2 * BATCH  # bytes a step, for each number of a row
    hidden = WIDE * WIDE // 2 + WIDE // 2 * WIDE // 4  # of the MLP, after its first layer
    per_pair = 2 * (2 * WIDE * WIDE + hidden)
    for line in lines:
        case, epochs = line["case"], gpu.TARGETS[line["case"]][3]
        if case == "gmf-deca-p":
            moved = 3 * DIM * (every + looked_up) + 8 * DIM * 2 * BATCH
            bounds.append(_bound(f"`{case}`, training", epochs * steps * moved, 0, line["train"]))
        if case == "neumf-deca":
            moved, operations = (3 * DIM + WIDE) * (every + looked_up), 3 * per_pair * 2 * BATCH
            bounds.append(
                _bound(f"`{case}`, training", epochs * steps * moved, epochs * steps * operations, line["train"])
            )
    for line in lines:
        if "ranked" in line:
            cells = line["ranked"] * line["items"] * GPU_SHAPES.get(line["case"], (0, 0, 0, 1))[3]
            each = 2 * DIM + (2 * hidden if line["case"] == "neumf-deca" else 0)
            bounds.append(_bound(f"`{line['case']}`, ranking", 8 * cells, each * cells, line["rank"]))
    return bounds


def device_shares(line: Results) -> dict[str, float]:
    """Of the device's time in one training, the share of each kind of kernel, the largest first."""
    spent = {kind: took for kind, took in line["device_ms"].items() if kind != "weights to the device" and took}
    return {kind: took / sum(spent.values()) for kind, took in sorted(spent.items(), key=lambda one: -one[1])}


def device_busy(line: Results) -> float:
    """Of the seconds of training, those in which the device worked."""
    return (
        sum(took for kind, took in line["device_ms"].items() if kind != "weights to the device") / 1e3 / line["train"]
    )
