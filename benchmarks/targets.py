"""The targets: what was asked for, what was reached, and what bounds it if it is missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import operations
import solved_page
from figures import (
    NAMES,
    Limit,
    Results,
    by_default,
    cpu_of,
    device_busy,
    device_shares,
    epoch_of,
    gigabytes,
    gpu_limits,
    median,
    peers_of,
    ratio,
    seconds,
    sizes_of,
    slope,
)

REST = {
    "epoch": "lookups, activations, gradients of rows, Adam and the overhead of each operation",
    "rank": "leaving out what was seen, the choice of the best and the overhead of each operation",
}
LINEAR = 1.1  # slopes below this are called linear
LARGEST = 10**8
AUTO_BOUND = "What is tried follows from the sizes of the log, not from the clock."
AUTO = "`auto` on a simulated log of MovieLens-1M's shape"
START = {"accord --help": 0.2, "import accord": 0.5, "accord train": 1.5}


class Check(NamedTuple):
    what: str
    asked: str
    reached: str
    met: bool
    bound: str  # what bounds it, shown if it is missed


def _faster(
    results: Results, part: str, command: str, factor: float, what: str, of_products: float | None = None
) -> Check:
    """This many times faster than the fastest peer, or within so many times the products alone."""
    libraries = results[part]["libraries"]
    reached, rival = min((ratio(results, part, name, command), name) for name in peers_of(results, part))
    ours, theirs = cpu_of(libraries["ours"][command]), cpu_of(libraries[rival][command])
    bound = f"{NAMES[rival]} takes {seconds(theirs)} CPU seconds, ours {seconds(ours)}"
    if "products" in libraries:
        products = cpu_of(libraries["products"][command])
        bound += f", the matrix products alone {seconds(products)}: "
        if theirs / products < factor:
            bound += f"even code that did nothing else would be {theirs / products:.1f} times faster, not {factor:g}"
        elif products > ours / 2:
            bound += "more than half of ours is these products"
        else:
            bound += f"more than half of ours is {REST[command]}"
    asked = f"{factor:g} times faster" if factor > 1 else "no slower"
    said, met = f"{reached:.1f} times ({NAMES[rival]})", reached >= factor
    if of_products is not None:
        times = 1 / ratio(results, part, "products", command)
        asked += f", or within {of_products:g} times its products"
        said, met = f"{said}; {times:.2f} times its products", met or times <= of_products
    return Check(what, asked, said, met, bound + ".")


def _cdae(results: Results) -> Check:
    check = _faster(results, "cdae", "epoch", 3, "CDAE, an epoch on the CPU, against RecBole")
    found = results["operations"]["cdae"]
    parts = ", ".join(f"{took / found['epoch']:.0%} {what}" for what, took in found["kinds"].items())
    why = (
        f" Of the epoch: {parts}; the rest of its {found['all'] / found['epoch']:.0%} in operations is many short ones,"
        " and what is left is Python between them."
    )
    return check._replace(bound=check.bound + why)


def _stack(results: Results) -> list[Check]:
    checks, found, each = [], results["operations"]["stack"], (operations.DOTS, operations.ADAM)
    own = sum(found["kinds"][kind] for kind in each) / found["all"]
    for key, clock, title in (("runs", 1, "CPU time of one thread"), ("shared", 0, "wall time, a thread a core")):
        runs = results["stack"][key]
        one, all_of_them = (median(runs[number]["epoch"], clock) for number in ("1", "16"))
        reached = 16 * one / all_of_them
        bound = (
            f"An epoch takes {seconds(one)} seconds for one run and {seconds(all_of_them)} for 16, where"
            f" {seconds(16 * one / 2.5)} were asked for. A stack shares the overhead of each operation;"
            f" {' and '.join(each)} are each run's own, and these alone are {own:.0%} of it:"
            f" {seconds(own * all_of_them)}."
        )
        what = f"16 stacked runs, each of them, {title}"
        checks.append(Check(what, "2.5 times cheaper than alone", f"{reached:.1f} times", reached >= 2.5, bound))
    return checks


def _electronics(results: Results) -> list[Check]:
    found = results["electronics"]
    peak = max(one["peak"] for one in found["rows"])
    held = max(one["peak"] for key in ("lightgcn", "cdae") for one in found[key])
    dense, rows = (cpu_of([epoch_of(one) for one in found[key]]) for key in ("dense", "rows"))
    settled = found["rows"][0]["settle"][1]  # of the first round, which takes all steps
    title = "Electronics' shape, DeCA"
    return [
        Check(
            f"{title}, GMF, memory", "under 4 GB", gigabytes(peak), peak < 4e9,
            "Weights, gradients and moments of four networks are held at once.",
        ),
        Check(
            f"{title}, GMF, row by row", "5 times faster than dense Adam", f"{dense / rows:.1f} times",
            dense >= 5 * rows,
            f"Of {seconds(rows)} CPU seconds {seconds(settled)} bring all rows up to date at the end of the epoch: with"
            " a penalty none of the steps that they have missed can be left out.",
        ),
        Check(
            f"{title}, LightGCN and CDAE", "run in the machine's memory", f"at most {gigabytes(held)}",
            held < found["machine"]["memory"], "",
        ),
    ]  # fmt: skip


def _sizes(results: Results) -> list[Check]:
    caches = "Small tables lie in the caches, larger ones do not."
    grown, apart = by_default(results), sizes_of(results)["decoupled"]
    first, same = (1e6 * epoch_of(one)[1] / one["pairs"] for one in (grown[0], apart[0]))
    why = (
        f"{caches} Of {grown[0]['pairs']:,} interactions each takes {first:.2g} µs with Adam, the default there;"
        f" the decoupled form takes {same:.2g}, and at all sizes has a slope of {slope(apart):.2f}."
    )
    bounds = {"tables of one size": caches, "tables that grow with the log": why}
    checks = []
    for (title, bound), found in zip(bounds.items(), (results["size"]["fixed"], grown), strict=True):
        grows = slope(found)
        checks.append(
            Check(f"cost against interactions, {title}", "linear", f"slope {grows:.2f}", grows < LINEAR, bound)
        )
    largest = grown[-1]
    if largest["pairs"] == LARGEST:
        minutes, peak = epoch_of(largest)[1] / 60, largest["peak"]
        what = f"{LARGEST:.0e} interactions, tables that grow"
        checks.append(Check(f"{what}, an epoch", "under 20 minutes", f"{minutes:.1f}", minutes < 20, caches))
        checks.append(
            Check(f"{what}, memory", "under 8 GB", gigabytes(peak), peak < 8e9, "Four networks are held at once.")
        )
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
                bound = f"It takes {line[key] / most:.1f} times what was asked; not profiled further."
                checks.append(Check(title, f"under {most} s", reached, line[key] < most, bound))
    by_case = {line["case"]: line for line in lines}
    for limit in gpu_limits(lines):
        share = limit.least / limit.took
        what = f"GPU: `{limit.case}`, share of the bandwidth limit"
        bound = _beyond_bytes(limit, by_case[limit.case])
        checks.append(Check(what, "at least 60%", f"{share:.0%}", share >= 0.6, bound))
    return checks


def _beyond_bytes(limit: Limit, line: Results) -> str:
    """Where a step's time goes besides moving bytes."""
    told = (
        f"A step takes {1e3 * limit.took:.2f} ms, {1e3 * (limit.took - limit.least):.2f} ms more than its bytes need."
    )
    if limit.later is not None:
        told += (
            f" In the epochs after the first, which records the steps, it takes {1e3 * limit.later:.2f} ms,"
            f" {limit.least / limit.later:.0%} of the limit."
        )
    if "device_ms" in line:
        shares = device_shares(line)
        told += f" The device works {min(1.0, device_busy(line)):.0%} of the time: "
        told += f"{', '.join(f'{kind} {share:.0%}' for kind, share in shares.items())}."
    return told


def _start(results: Results) -> list[Check]:
    checks = []
    for what, most in START.items():
        took = float(np.median(results["start"]["cpu"][what]))
        bound = "It is the import of libraries: `python -X importtime -m accord` says of which."
        checks.append(Check(f"`{what}`, to its first line", f"under {most} CPU s", f"{took:.2f} s", took < most, bound))
    return checks


def _reached(results: Results) -> tuple[float, float]:
    """CPU seconds of MF and of implicit's BPR until the quality that both are to reach."""
    ours, theirs = (
        float(np.median([point[0] for point in results["mf-quality"][who]["points"]])) for who in ("ours", "implicit")
    )
    return ours, theirs


def mf_quality(results: Results) -> str:
    found, (ours, theirs) = results["mf-quality"], _reached(results)
    tests = [found[who]["points"][0][2] for who in ("ours", "implicit")]
    epochs = [found[who]["points"][0][3] for who in ("ours", "implicit")]
    best = found["best"]
    return (
        f"At equal quality, NDCG@20 of {found['quality']:.4f} on the validation, ours takes {seconds(ours)} CPU seconds"
        f" ({epochs[0]} epochs, {tests[0]:.4f} on the test) and implicit's {seconds(theirs)} ({epochs[1]} epochs,"
        f" {tests[1]:.4f}); the best that is reached there is {best['ours']:.4f} and {best['implicit']:.4f}. Both had"
        " eight settings to choose from, by which gets there first on the validation."
    )


def _mf(results: Results) -> Check:
    ours, theirs = _reached(results)
    what = "MF, CPU seconds to the quality that implicit's BPR reaches"
    epochs = [results["mf-quality"][who]["points"][0][3] for who in ("ours", "implicit")]
    bound = (
        f"It is {epochs[0]} epochs of ours, in Adam's steps on batches, against {epochs[1]} of implicit's, pair by"
        f" pair: {seconds(ours / epochs[0])} and {seconds(theirs / epochs[1])} CPU seconds each."
    )
    return Check(what, "no more", f"{ours / theirs:.2f} times", ours <= theirs, bound)


def _of_products(results: Results) -> Check:
    times = 1 / ratio(results, "neumf", "products", "epoch")
    what = "NeuMF, an epoch on the CPU, against its matrix products alone"
    passes = dict(results["operations"]["neumf"]["kinds"])
    products = passes.pop(operations.PRODUCTS)
    named = ", ".join(f"{name} {took / products:.0%}" for name, took in passes.items() if took > products / 100)
    bound = (
        f"What reads rows or layers once more takes, of the products' time: {named}. With these alone it would be"
        f" {1 + sum(passes.values()) / products:.2f} times; the rest is the loss, zero gradients and the overhead of"
        " each operation."
    )
    return Check(what, "within 1.4 times", f"{times:.2f} times", times <= 1.4, bound)


def _two_cores(results: Results) -> list[Check]:
    found = results["two-cores"]
    checks = []
    for name, (most, ranked) in {"ease-9000": (15, True), "ease-16000": (60, False)}.items():
        own = found[name]
        took = own["fit"]["seconds"] + ranked * own["judged"]["seconds"]
        what = f"ease of {own['items']:,} items, fitting{' and evaluation' if ranked else ''}, two cores"
        cube = own["items"] ** 3
        bound = (
            f"The fit takes {own['fit']['seconds']:.1f} s. An inverse of that size takes {cube:.1e} operations: at the"
            f" speed of a product, by two threads, {cube / (2 * found['products']):.1f} s."
        )
        checks.append(Check(what, f"under {most} s", f"{took:.1f} s", took < most, bound))
    audit, auto = found["audit"], found["auto"]
    took, said = float(np.median(audit["seconds"])), audit["said"]
    bound = (
        f"Trainings of GMF in two processes are nearly all of it: {said['noise']:.0f} s to judge every interaction by"
        f" models that were trained without it, {said['verdict']:.0f} s to compare methods."
    )
    checks.append(
        Check(f"`accord.audit` of {audit['log']}, two cores", "under 60 s", f"{took:.0f} s", took < 60, bound)
    )
    took = float(np.median(auto["seconds"]))
    checks.append(Check(f"{AUTO}, two cores", "under 300 s", f"{took:.0f} s", took < 300, AUTO_BOUND))
    return checks


def lists_of(results: Results) -> dict[str, tuple[float, float]]:
    """CPU seconds of exact lists, and the system's share of them, by the way that they are made."""
    return {
        way: (float(np.median([one["cpu"] for one in made])), float(np.median([one["system"] for one in made])))
        for way, made in results["lists"]["ways"].items()
    }


def _lists(results: Results) -> Check:
    found = results["lists"]
    now, before, products = (lists_of(results)[way][0] for way in ("now", "before", "products"))
    what = f"exact lists of {found['users']:,} users over {found['items']:,} items, GMF"
    bound = (
        f"They take {seconds(now)} CPU seconds, {seconds(before)} before; the products alone take {seconds(products)},"
        f" so that nothing but these would be {before / products:.1f} times faster."
    )
    return Check(what, "3 times faster than before", f"{before / now:.1f} times", before >= 3 * now, bound)


def _auto_on_gpu(once: Results) -> Check:
    auto = once["auto_gpu"]
    later = float(np.median(auto["later"]))
    said = f"{later:.1f} s; the first in a process {min(auto['first']):.0f} to {max(auto['first']):.0f} s"
    bound = f"Not tried, as they would not fit into the budget: {', '.join(auto['left_out'])}."
    return Check(f"GPU: {AUTO}", "under 10 s", said, later < 10, bound)


def _board(once: Results) -> Check:
    found = once["board"]
    what = f"GPU: the corrected leaderboard of MovieLens-100k, {found['rows']} rows with their tuning, in one command"
    bound = "The rows of the largest models are trained at once, and the longest of them decides."
    return Check(what, "under 600 s", f"{found['seconds']} s", found["seconds"] < 600, bound)


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
        _cdae(results),
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
    ]
