"""docs/performance.md, docs/records/performance.md and its plots, from the files of this folder alone.

results.json is of `run.py`, gpu-results.jsonl of `gpu.py`, optimiser.jsonl of `optimiser.py`, released.json of the
released code, xeon.json of `run.py` on a Xeon, and once.json has what was measured once.

    python benchmarks/page.py

Every figure comes from these files, and whether a target is met follows from its figure.
"""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import numpy as np
import plots
import rows_page
import solved_page
import summary
import targets
from figures import (
    GPU_COPY,
    GPU_SHAPES,
    KERNELS,
    NAMES,
    ON_XEON,
    ONCE,
    Results,
    by_default,
    cpu_of,
    dense_share,
    device_busy,
    device_shares,
    epoch_of,
    gigabytes,
    gpu_limits,
    gpu_runs,
    median,
    optimisers_of,
    other_bounds,
    peers_of,
    products_share,
    ratio,
    seconds,
    sizes_of,
    slope,
    spread,
    table,
)

from accord.training.plan import LONG

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PARTS = {
    "neumf": "NeuMF, dim 32, batch 2048",
    "lightgcn-64": "LightGCN, dim 64, batch 2048",
    "lightgcn-32": "LightGCN, dim 32, batch 1024",
    "gmf": "GMF, dim 32, batch 2048",
    "cdae": "CDAE, dim 32, 256 users a batch",
    "mf": "MF, dim 32",
}
SIZES = plots.SIZES
ELECTRONICS = {"rows": "GMF, row by row", "dense": "GMF, dense Adam", "lightgcn": "LightGCN, dim 64", "cdae": "CDAE"}


def peers_table(results: Results) -> str:
    rows = []
    for part, title in PARTS.items():
        for library, measured in results[part]["libraries"].items():
            first = library == "ours"
            times = ["" if first else f"{ratio(results, part, library, command):.2g}" for command in ("epoch", "rank")]
            times = [spread(measured["epoch"]), times[0], spread(measured["rank"]), times[1]]
            rows.append([f"**{title}**" if first else "", NAMES[library], *times, gigabytes(measured["peak"])])
    return table(["", "", "epoch, CPU s", "times ours", "ranking, CPU s", "times ours", "peak memory"], rows)


def slower(results: Results) -> list[str]:
    """Where a peer is faster than ours."""
    what = {"epoch": "an epoch", "rank": "ranking"}
    return [
        f"{title}, {what[command]}: {NAMES[peer]} takes {ratio(results, part, peer, command):.2g} times our time."
        for part, title in PARTS.items()
        for peer in peers_of(results, part)
        for command in what
        if ratio(results, part, peer, command) < 1
    ]


def wall_table(results: Results) -> str:
    rows = [
        [title, NAMES[library], spread(measured["epoch"], 0), spread(measured["rank"], 0), measured["way"]]
        for part, title in PARTS.items()
        for library, measured in results[part]["libraries"].items()
    ]
    return table(["", "", "epoch, wall s", "ranking, wall s", "ranked by"], rows)


def stack_table(results: Results) -> str:
    rows = []
    for number, measured in results["stack"]["runs"].items():
        cells = [number, gigabytes(measured["peak"])]
        for key, clock in (("runs", 1), ("shared", 0)):
            times = results["stack"][key]
            alone, each = median(times["1"]["epoch"], clock), median(times[number]["epoch"], clock) / int(number)
            cells += [spread(times[number]["epoch"], clock), seconds(each), f"{alone / each:.1f}"]
        rows.append(cells)
    head = ["runs", "peak memory", "one thread: epoch, CPU s", "each run", "times cheaper"]
    return table([*head, "a thread a core: epoch, wall s", "each run", "times cheaper"], rows)


def size_table(results: Results) -> str:
    rows = []
    for kind, of_kind in sizes_of(results).items():
        for measured in of_kind:
            shape = [f"{measured[name]:,}" for name in ("pairs", "users", "items")]
            cost = epoch_of(measured)[1]
            each, steps = f"{cost / measured['pairs'] * 1e6:.2g}", f"{measured['taken']:,} of {measured['of']:,}"
            rows.append([SIZES[kind], *shape, seconds(cost), each, steps, gigabytes(measured["peak"])])
    head = ["", "interactions", "users", "items", "epoch, CPU s", "µs an interaction", "steps taken", "peak memory"]
    return table(head, rows)


def electronics_table(results: Results) -> str:
    rows = []
    for key, title in ELECTRONICS.items():
        measured = results["electronics"][key]
        epochs = [epoch_of(one) for one in measured]
        steps = ", ".join(f"{one['taken']} of {one['of']}" for one in measured)
        rows.append([title, spread(epochs), spread(epochs, 0), steps, gigabytes(max(one["peak"] for one in measured))])
    return table(["with DeCA", "epoch, CPU s", "epoch, wall s", "steps taken", "peak memory"], rows)


def gpu_table(lines: list[Results]) -> str:
    rows = []
    for line in lines:
        target, train = line["target"], line["train"]
        against = ["", ""] if target is None else [f"{target}", "met" if train < target else "**missed**"]
        rest = [f"{line['rank']:.4f}", f"{line['first']:.2f}", gigabytes(1e9 * line["gigabytes"])]
        least, most = min(line["trains"]), max(line["trains"])
        rows.append([f"`{line['case']}`", f"{train:.3f} ({least:.3f}–{most:.3f})", *against, *rest])
    return table(["case", "training, s", "target", "", "ranking, s", "first time, s", "memory"], rows)


def device_table(lines: list[Results]) -> str:
    """Where the device's time goes in a training."""
    profiled = [line for line in lines if "device_ms" in line]
    kinds = [kind for kind in profiled[0]["device_ms"] if kind != "weights to the device"]
    rows = []
    for line in profiled:
        shares = device_shares(line)
        parts = [f"{shares[kind]:.0%}" if kind in shares else "" for kind in kinds]
        rows.append([f"`{line['case']}`", f"{min(1.0, device_busy(line)):.0%}", *parts])
    return table(["case", "the device works", *kinds], rows)


def versions_table(versions: Results) -> str:
    """The two versions at the same commands, in turn."""
    rows = []
    for case, measured in versions["cases"].items():
        same = {True: "same", False: "**other**", None: ""}[measured.get("same metrics")]
        rows.append(["CPU", case, *_old_and_new(measured, ".2f"), same])
    for case, measured in versions["gpu"]["cases"].items():
        rows.append(["GPU", f"`{case}`, training", *_old_and_new(measured, ".3f"), ""])
    return table(["", "", "0.1.0, s", "now, s", "times", "metrics"], rows)


def _old_and_new(measured: Results, form: str) -> list[str]:
    old, new = (float(np.median(measured[version])) for version in ("old", "new"))
    return [f"{old:{form}}", f"{new:{form}}", f"{new / old:.2f}"]


def released_seconds(released: Results, lines: list[Results]) -> dict[str, tuple[float, float]]:
    """Training seconds of the released code and of ours, by case."""
    together = {run["case"]: (run["released"]["train"], run["accord"]["train"]) for run in released["runs"]}
    ours = {line["case"]: line["train"] for line in lines}
    return {case: together.get(case, (earlier, ours[case])) for case, earlier in released["earlier"]["train"].items()}


def released_table(released: Results, lines: list[Results]) -> str:
    """The released code and ours, timed in one call where that was done, else in separate calls."""
    together = {run["case"] for run in released["runs"]}
    rows = []
    for case, (theirs, ours) in released_seconds(released, lines).items():
        how = "in one call" if case in together else "in calls of their own"
        rows.append([f"`{case}`", f"{theirs:.1f}", f"{ours:.3f}", f"{theirs / ours:.0f}", how])
    return table(["case", "released code, s", "Accord, s", "times faster", ""], rows)


def optimiser_table(cells: list[Results]) -> str:
    rows = []
    for cell in cells:
        test = cell["test"]
        means = [f"{cell[kind]['mean']:.4f} ± {cell[kind]['sd']:.4f}" for kind in ("adam", "decoupled")]
        interval = f"{test['difference']:+.4f} ({test['low']:+.4f} to {test['high']:+.4f})"
        l2 = [f"{cell[kind]['options'].get('train.l2', 'default')}" for kind in ("adam", "decoupled")]
        rows.append([cell["dataset"], f"{cell['model']} + {cell['method']}", *means, interval, f"{cell['p']:.2g}", *l2])
        rows[-1] += [cell["decoupled"]["device"], cell["commit"]]
    head = ["", "", "Adam", "decoupled", "difference", "p", "l2, Adam", "l2, decoupled", "on", "commit"]
    return table(head, rows)


def optimiser_counts(cells: list[Results]) -> dict[str, dict[str, int]]:
    """On each log, in how many cells the decoupled form is better, worse, or not significantly different."""
    by_log: dict[str, dict[str, int]] = {}
    for cell in cells:
        counts = by_log.setdefault(cell["dataset"], {"better": 0, "worse": 0, "level": 0})
        significant = cell["p"] < 0.05
        counts["better" if significant and cell["test"]["difference"] > 0 else "worse" if significant else "level"] += 1
    return by_log


def peers_machines(results: Results) -> str:
    """On which machine each row against peers was taken."""
    parts: dict[str, list[str]] = {}
    for name, title in PARTS.items():
        parts.setdefault(results[name]["machine"]["processor"], []).append(title.partition(",")[0])
    return "; ".join(f"{', '.join(dict.fromkeys(names))} on {processor}" for processor, names in parts.items())


def commits(results: Results) -> str:
    """Which parts each commit has measured."""
    parts: dict[str, list[str]] = {}
    for name, part in results.items():
        parts.setdefault(part["commit"], []).append(name)
    return "; ".join(f"{', '.join(names)} by commit {commit}" for commit, names in parts.items())


def machines_table(results: Results) -> str:
    """What each part rests on."""
    rows = []
    for name, part in results.items():
        machine = part["machine"]
        software = f"Python {machine['python']}, torch {machine['torch']}"
        load = f"{part['load'][0]:.1f} to {part['load'][1]:.1f}"
        rows.append(
            [
                name,
                f"{machine['processor']}, {machine['cores']} cores",
                software,
                part["commit"],
                part["when"][:10],
                load,
            ]
        )
    return table(["part", "machine", "software", "commit", "date", "load average"], rows)


def limits_table(results: Results, lines: list[Results]) -> str:
    measured = results["electronics"]
    rows = []
    for key, title in (("dense", "Electronics' shape, dense Adam, CPU"), ("rows", "the same, row by row")):
        moved, of = 32 * measured[key][0]["elements"], measured[key][0]["of"]
        least, took = moved / max(measured["copy"]), cpu_of([epoch_of(one) for one in measured[key]]) / of
        rows.append([title, moved, least, took])
    rows += [[f"`{limit.case}`, GPU", limit.bytes, limit.least, limit.took] for limit in gpu_limits(lines)]
    cells = [
        [title, gigabytes(moved), f"{1e3 * least:.3g}", f"{1e3 * took:.3g}", f"{least / took:.0%}"]
        for title, moved, least, took in rows
    ]
    return table(["GMF with DeCA", "bytes a step", "limit, ms a step", "measured, ms a step", "of the limit"], cells)


def checks_table(checks: list[targets.Check], on_xeon: list[targets.Check]) -> str:
    elsewhere = {check.what: f"{check.reached}, {_met(check)}" for check in on_xeon}
    rows = [[check.what, check.asked, check.reached, _met(check), elsewhere.get(check.what, "")] for check in checks]
    return table(["", "asked", "reached", "", "on a Xeon"], rows)


def _met(check: targets.Check) -> str:
    return "met" if check.met else "**missed**"


def bounds_table(lines: list[Results]) -> str:
    cells = [
        [one.what, one.by, f"{1e3 * one.least:.3g}", f"{1e3 * one.took:.3g}", f"{one.least / one.took:.1%}"]
        for one in other_bounds(lines)
    ]
    return table(["on the GPU", "bound by", "limit, ms", "measured, ms", "of the limit"], cells)


def attention_on_gpu(lines: list[Results]) -> str:
    """What sasrec takes on a GPU beside RecTools' SASRec, with its settings and with those that auto tries first."""
    curves = {line["who"]: line["points"] for line in lines if "points" in line}
    epochs = {who: np.median(np.diff([point[0] for point in points])) for who, points in curves.items()}
    best = {who: max(point[1] for point in points if len(point) > 1) for who, points in curves.items()}
    reached = {
        who: next(point[0] for point in points if len(point) > 1 and point[1] >= best["rectools"])
        for who, points in curves.items()
    }
    return (
        f"an epoch takes RecTools {epochs['rectools']:.2f} s with its own settings, ours {epochs['ours']:.2f} s with"
        f" the same and {epochs['auto']:.2f} s with those that `auto` tries first. RecTools' best NDCG@10 on the"
        f" validation, {best['rectools']:.4f} of {len(curves['rectools'])} epochs, takes it {reached['rectools']:.0f} s"
        f" of training, ours {reached['ours']:.0f} s and {reached['auto']:.0f} s; our best are {best['ours']:.4f} and"
        f" {best['auto']:.4f}."
    )


def pages(
    results: Results, gpu_lines: list[Results], released: Results, optimisers: list[Results], versions: Results
) -> dict[str, str]:
    """The short page and the record, by their places in docs/."""
    on, lines, cold = gpu_runs(gpu_lines)
    checks, xeon_checks = targets.every(results, lines, ONCE), targets.of_processor(ON_XEON)
    loads = [load for part in results.values() for load in part["load"]]
    looks = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    context = {
        "summary_table": summary.summary_table(results, lines, checks),
        "mf_reached": f"{targets.mf_times(results):.2f}",
        "mf_reached_xeon": f"{targets.mf_times(ON_XEON):.2f}",
        "released_times": [round(theirs / ours) for theirs, ours in released_seconds(released, lines).values()],
        "grid_runs": GPU_SHAPES["grid-144"][3],
        "grid_seconds": next(f"{line['train']:.2f}" for line in lines if line["case"] == "grid-144"),
        "stacked": next(check.reached.split()[0] for check in checks if check.what.startswith("16 stacked runs")),
        "fixed_slope": f"{slope(results['size']['fixed']):.2f}",
        "growing_slope": f"{slope(by_default(results)):.2f}",
        "versions_times": [
            round(float(np.median(one["new"]) / np.median(one["old"])), 2) for one in versions["cases"].values()
        ],
        "results": results,
        "on": on,
        "cold": {
            kernels: [one["first"] for one in cold if one["kernels"] == kernels]
            for kernels in ("compiled now", "found")
        },
        "device_table": device_table(lines),
        "versions": versions,
        "versions_table": versions_table(versions),
        "checks": checks,
        "by_processor": targets.of_processor(results),
        "lists": {
            f"{on['processor']}, torch {on['torch']}": targets.lists_of(measured)
            for measured in (results, ON_XEON)
            for on in [measured["lists"]["machine"]]
        },
        "checks_table": checks_table(checks, xeon_checks),
        "gpu_table": gpu_table(lines),
        "released": released,
        "released_table": released_table(released, lines),
        "machines_table": machines_table(results),
        "peers_machines": peers_machines(results),
        "once": ONCE,
        "kernels": KERNELS,
        "optimiser_table": optimiser_table(optimisers_of(optimisers)),
        "optimisers": optimiser_counts(optimisers_of(optimisers)),
        "trials": optimisers[0]["trials"],
        "seeds": optimisers[0]["seeds"],
        "peers_table": peers_table(results),
        "xeon": ON_XEON["neumf"]["machine"],
        "xeon_checks": xeon_checks,
        "xeon_table": peers_table(ON_XEON),
        "xeon_products": products_share(ON_XEON, "lightgcn-64"),
        "xeon_commits": commits(ON_XEON),
        "slower": slower(results),
        "wall_table": wall_table(results),
        "stack_table": stack_table(results),
        "size_table": size_table(results),
        "electronics_table": electronics_table(results),
        "rows_on": rows_page.measured()[0],
        "rows_most": max(line["taken"] for line in rows_page.measured()[1]),
        "rows_table": rows_page.rows_table(),
        "rows_sentence": rows_page.sentence(),
        "mf_quality": targets.mf_quality(results),
        "limits_table": limits_table(results, lines),
        "bounds_table": bounds_table(lines),
        "products_peak": ONCE["gpu_products"]["per_second"],
        "slopes": {SIZES[kind]: slope(measured) for kind, measured in sizes_of(results).items()},
        "linear": targets.LINEAR,
        "long": LONG,
        "copy": max(results["electronics"]["copy"]),
        "gpu_copy": GPU_COPY,
        "by_rows_share": dense_share(results),
        "products": {part: products_share(results, part) for part in ("neumf", "lightgcn-64", "lightgcn-32")},
        "attention": read_lines(HERE / "attention.jsonl"),
        "attention_on_gpu": attention_on_gpu(read_lines(HERE / "sasrec-gpu.jsonl")),
        "solved_table": solved_page.size_table(results),
        "solved_peers_table": solved_page.peers_table(results),
        "solved_ranking_table": solved_page.ranking_table(results),
        "rounds": len(results["neumf"]["libraries"]["ours"]["epoch"]),
        "busy": max(loads) > min(part["machine"]["cores"] for part in results.values()) + 0.5,
    }
    templates = {"performance.md": "page.md.j2", "records/performance.md": "record.md.j2"}
    return {
        name: looks.from_string((HERE / template).read_text(encoding="utf-8")).render(context)
        for name, template in templates.items()
    }


def read_lines(file: Path) -> list[Results]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def main() -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    lines = read_lines(HERE / "gpu-results.jsonl")
    released = json.loads((HERE / "released.json").read_text(encoding="utf-8"))
    versions = json.loads((HERE / "versions.json").read_text(encoding="utf-8"))
    written = pages(results, lines, released, read_lines(HERE / "optimiser.jsonl"), versions)
    for name, drawing in plots.every(results).items():
        (DOCS / "images" / name).write_text(drawing, encoding="utf-8")
    for name, text in written.items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
