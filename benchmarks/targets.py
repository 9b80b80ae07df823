"""The targets: what was asked for, what was reached, and whether that is enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import solved_page
from figures import (
    NAMES,
    Results,
    by_default,
    cpu_of,
    epoch_of,
    gigabytes,
    gpu_limits,
    median,
    peers_of,
    ratio,
    seconds,
    slope,
)

LINEAR = 1.1  # slopes below this are called linear
LARGEST = 10**8
AUTO = "`auto` on a simulated log of MovieLens-1M's shape"
START = {"accord --help": 0.2, "import accord": 0.5, "accord train": 1.5}


class Check(NamedTuple):
    what: str
    asked: str
    reached: str
    met: bool


def _faster(
    results: Results, part: str, command: str, factor: float, what: str, of_products: float | None = None
) -> Check:
    """This many times faster than the fastest peer, or within so many times the products alone."""
    reached, rival = min((ratio(results, part, name, command), name) for name in peers_of(results, part))
    asked = f"{factor:g} times faster" if factor > 1 else "no slower"
    said, met = f"{reached:.1f} times ({NAMES[rival]})", reached >= factor
    if of_products is not None:
        times = 1 / ratio(results, part, "products", command)
        asked += f", or within {of_products:g} times its products"
        said, met = f"{said}; {times:.2f} times its products", met or times <= of_products
    return Check(what, asked, said, met)


def _stack(results: Results) -> list[Check]:
    checks = []
    for key, clock, title in (("runs", 1, "CPU time of one thread"), ("shared", 0, "wall time, a thread a core")):
        runs = results["stack"][key]
        one, all_of_them = (median(runs[number]["epoch"], clock) for number in ("1", "16"))
        reached = 16 * one / all_of_them
        what = f"16 stacked runs, each of them, {title}"
        checks.append(Check(what, "2.5 times cheaper than alone", f"{reached:.1f} times", reached >= 2.5))
    return checks


def _electronics(results: Results) -> list[Check]:
    measured = results["electronics"]
    peak = max(one["peak"] for one in measured["rows"])
    held = max(one["peak"] for key in ("lightgcn", "cdae") for one in measured[key])
    dense, rows = (cpu_of([epoch_of(one) for one in measured[key]]) for key in ("dense", "rows"))
    title = "Electronics' shape, DeCA"
    return [
        Check(f"{title}, GMF, memory", "under 4 GB", gigabytes(peak), peak < 4e9),
        Check(
            f"{title}, GMF, row by row", "5 times faster than dense Adam", f"{dense / rows:.1f} times",
            dense >= 5 * rows,
        ),
        Check(
            f"{title}, LightGCN and CDAE", "run in the machine's memory", f"at most {gigabytes(held)}",
            held < measured["machine"]["memory"],
        ),
    ]  # fmt: skip


def _sizes(results: Results) -> list[Check]:
    grown = by_default(results)
    kinds = {"tables of one size": results["size"]["fixed"], "tables that grow with the log": grown}
    checks = []
    for title, measured in kinds.items():
        grows = slope(measured)
        checks.append(Check(f"cost against interactions, {title}", "linear", f"slope {grows:.2f}", grows < LINEAR))
    largest = grown[-1]
    if largest["pairs"] == LARGEST:
        minutes, peak = epoch_of(largest)[1] / 60, largest["peak"]
        what = f"{LARGEST:.0e} interactions, tables that grow"
        checks.append(Check(f"{what}, an epoch", "under 20 minutes", f"{minutes:.1f}", minutes < 20))
        checks.append(Check(f"{what}, memory", "under 8 GB", gigabytes(peak), peak < 8e9))
    return checks


def _gpu(lines: Sequence[Results]) -> list[Check]:
    checks = []
    for line in lines:
        asked = {"training": ("train", line["target"])}
        asked["ranking"] = ("rank", {"adressa-gmf-deca": 0.05, "electronics-shape": 0.1}.get(line["case"]))
        for what, (key, most) in asked.items():
            if most is not None:
                reached = f"{line[key]:.3f} s"
                title = f"GPU: `{line['case']}`, {what}"
                checks.append(Check(title, f"under {most} s", reached, line[key] < most))
    for limit in gpu_limits(lines):
        share = limit.least / limit.took
        what = f"GPU: `{limit.case}`, share of the bandwidth limit"
        checks.append(Check(what, "at least 60%", f"{share:.0%}", share >= 0.6))
    return checks


def _start(results: Results) -> list[Check]:
    checks = []
    for what, most in START.items():
        took = float(np.median(results["start"]["cpu"][what]))
        checks.append(Check(f"`{what}`, to its first line", f"under {most} CPU s", f"{took:.2f} s", took < most))
    return checks


def _reached(results: Results) -> tuple[float, float]:
    """CPU seconds of MF and of implicit's BPR until the quality that both are to reach."""
    ours, theirs = (
        float(np.median([point[0] for point in results["mf-quality"][who]["points"]])) for who in ("ours", "implicit")
    )
    return ours, theirs


def mf_times(results: Results) -> float:
    """How many times implicit's CPU seconds ours takes to that quality."""
    ours, theirs = _reached(results)
    return ours / theirs


def mf_quality(results: Results) -> str:
    quality, (ours, theirs) = results["mf-quality"], _reached(results)
    tests = [quality[who]["points"][0][2] for who in ("ours", "implicit")]
    epochs = [quality[who]["points"][0][3] for who in ("ours", "implicit")]
    best, level = quality["best"], quality["quality"]
    return (
        f"At equal quality, NDCG@20 of {level:.4f} on the validation, ours takes {seconds(ours)} CPU seconds"
        f" ({epochs[0]} epochs, {tests[0]:.4f} on the test) and implicit's {seconds(theirs)} ({epochs[1]} epochs,"
        f" {tests[1]:.4f}); the best that is reached there is {best['ours']:.4f} and {best['implicit']:.4f}. Both had"
        " eight settings to choose from, by which gets there first on the validation."
    )


def _mf(results: Results) -> Check:
    what, times = "MF, CPU seconds to the quality that implicit's BPR reaches", mf_times(results)
    return Check(what, "no more", f"{times:.2f} times", times <= 1)


def _of_products(results: Results) -> Check:
    times = 1 / ratio(results, "neumf", "products", "epoch")
    what = "NeuMF, an epoch on the CPU, against its matrix products alone"
    return Check(what, "within 1.4 times", f"{times:.2f} times", times <= 1.4)


def _two_cores(results: Results) -> list[Check]:
    measured = results["two-cores"]
    checks = []
    for name, (most, ranked) in {"ease-9000": (15, True), "ease-16000": (60, False)}.items():
        ease = measured[name]
        took = ease["fit"]["seconds"] + ranked * ease["judged"]["seconds"]
        what = f"ease of {ease['items']:,} items, fitting{' and evaluation' if ranked else ''}, two cores"
        checks.append(Check(what, f"under {most} s", f"{took:.1f} s", took < most))
    audit, auto = measured["audit"], measured["auto"]
    took = float(np.median(audit["seconds"]))
    checks.append(Check(f"`accord.audit` of {audit['log']}, two cores", "under 60 s", f"{took:.0f} s", took < 60))
    took = float(np.median(auto["seconds"]))
    checks.append(Check(f"{AUTO}, two cores", "under 300 s", f"{took:.0f} s", took < 300))
    return checks


def lists_of(results: Results) -> dict[str, tuple[float, float]]:
    """CPU seconds of exact lists, and the system's share of them, by the way that they are made."""
    return {
        way: (float(np.median([one["cpu"] for one in made])), float(np.median([one["system"] for one in made])))
        for way, made in results["lists"]["ways"].items()
    }


def _lists(results: Results) -> Check:
    measured = results["lists"]
    now, before = (lists_of(results)[way][0] for way in ("now", "before"))
    what = f"exact lists of {measured['users']:,} users over {measured['items']:,} items, GMF"
    return Check(what, "3 times faster than before", f"{before / now:.1f} times", before >= 3 * now)


def _auto_on_gpu(once: Results) -> Check:
    auto = once["auto_gpu"]
    later = float(np.median(auto["later"]))
    said = f"{later:.1f} s; the first in a process {min(auto['first']):.0f} to {max(auto['first']):.0f} s"
    return Check(f"GPU: {AUTO}", "under 10 s", said, later < 10)


def _softmax_members() -> list[Check]:
    raw = Path(__file__).with_name("softmax-members.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in raw.splitlines()]
    took = [sum(one["later"] for one in line["members"].values()) for line in lines if "NVIDIA" in line["device"]]
    said = f"{min(took):.1f} to {max(took):.1f} s; {sum(each < 10 for each in took)} logs under 10 s"
    (cpu,) = (line for line in lines if "NVIDIA" not in line["device"])
    alone = cpu["members"]["mf + softmax"]["later"]
    what = f"{cpu['log']}'s MF by softmax, to its best, two cores"
    return [
        Check(f"GPU: the softmax members of a log, {len(took)} logs", "under 10 s", said, max(took) < 10),
        Check(what, "under 60 s", f"{alone:.0f} s", alone < 60),
    ]


def _board(once: Results) -> Check:
    measured = once["board"]
    what = (
        f"GPU: the corrected leaderboard of MovieLens-100k, {measured['rows']} rows with their tuning, in one command"
    )
    return Check(what, "under 600 s", f"{measured['seconds']} s", measured["seconds"] < 600)


def of_processor(results: Results) -> list[Check]:
    """What `run.py` measures that depends on the kind of processor: training beside other libraries, products alone and
    one run alone, whole calls on two cores, and lists."""
    models = {"neumf": "NeuMF", "lightgcn-64": "LightGCN (64)", "lightgcn-32": "LightGCN (32)"}
    commands = {"epoch": "an epoch on the CPU", "rank": "ranking all users"}
    within = {("lightgcn-64", "rank"): 1.3}
    return [
        *(
            _faster(
                results, part, command, 5, f"{model}, {what}, against the fastest peer", within.get((part, command))
            )
            for command, what in commands.items()
            for part, model in models.items()
        ),
        _of_products(results),
        _faster(results, "cdae", "epoch", 3, "CDAE, an epoch on the CPU, against RecBole"),
        _faster(results, "mf", "rank", 1, "MF, ranking all users, against implicit"),
        *_stack(results),
        _mf(results),
        *_electronics(results),
        *_two_cores(results),
        _lists(results),
    ]


def every(results: Results, lines: Sequence[Results], once: Results) -> list[Check]:
    return [
        *of_processor(results),
        *_sizes(results),
        *(Check(*check) for check in solved_page.size_checks(results)),
        *_start(results),
        *_gpu(lines),
        _auto_on_gpu(once),
        _board(once),
        *_softmax_members(),
    ]
