"""docs/performance.md and its plots, from benchmarks/results.json and benchmarks/gpu-results.jsonl alone.

    python benchmarks/page.py

Every figure comes from these files, and what the text says of a figure is chosen by it: whether a target is met, and
what bounds it where it is missed.
"""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import plots
import targets
from figures import (
    GPU_COPY,
    NAMES,
    Results,
    cpu_of,
    dense_share,
    epoch_of,
    gigabytes,
    gpu_limits,
    median,
    peers_of,
    products_share,
    ratio,
    seconds,
    sizes_of,
    slope,
    spread,
    table,
)

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
        for library, found in results[part]["libraries"].items():
            first = library == "ours"
            times = ["" if first else f"{ratio(results, part, library, command):.2g}" for command in ("epoch", "rank")]
            times = [spread(found["epoch"]), times[0], spread(found["rank"]), times[1]]
            rows.append([f"**{title}**" if first else "", NAMES[library], *times, gigabytes(found["peak"])])
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
        [title, NAMES[library], spread(found["epoch"], 0), spread(found["rank"], 0), found["way"]]
        for part, title in PARTS.items()
        for library, found in results[part]["libraries"].items()
    ]
    return table(["", "", "epoch, wall s", "ranking, wall s", "ranked by"], rows)


def stack_table(results: Results) -> str:
    rows = []
    for number, found in results["stack"]["runs"].items():
        cells = [number, gigabytes(found["peak"])]
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
        for found in of_kind:
            shape = [f"{found[name]:,}" for name in ("pairs", "users", "items")]
            cost = epoch_of(found)[1]
            each, steps = f"{cost / found['pairs'] * 1e6:.2g}", f"{found['taken']:,} of {found['of']:,}"
            rows.append([SIZES[kind], *shape, seconds(cost), each, steps, gigabytes(found["peak"])])
    head = ["", "interactions", "users", "items", "epoch, CPU s", "µs an interaction", "steps taken", "peak memory"]
    return table(head, rows)


def electronics_table(results: Results) -> str:
    rows = []
    for key, title in ELECTRONICS.items():
        found = results["electronics"][key]
        epochs = [epoch_of(one) for one in found]
        steps = ", ".join(f"{one['taken']} of {one['of']}" for one in found)
        rows.append([title, spread(epochs), spread(epochs, 0), steps, gigabytes(max(one["peak"] for one in found))])
    return table(["with DeCA", "epoch, CPU s", "epoch, wall s", "steps taken", "peak memory"], rows)


def gpu_table(lines: list[Results]) -> str:
    rows = []
    for line in lines:
        target, released, train = line["target"], line["released"], line["train"]
        against = ["", ""] if target is None else [f"{target}", "met" if train < target else "**missed**"]
        against += ["", ""] if released is None else [f"{released}", f"{released / train:.0f}"]
        rest = [f"{line['rank']:.4f}", f"{line['first']:.2f}", gigabytes(1e9 * line["gigabytes"])]
        rows.append([f"`{line['case']}`", f"{train:.3f}", *against, *rest])
    head = ["case", "training, s", "target", "", "released code, s", "times faster", "ranking, s", "first time, s"]
    return table([*head, "memory"], rows)


def limits_table(results: Results, lines: list[Results]) -> str:
    found = results["electronics"]
    rows = []
    for key, title in (("dense", "Electronics' shape, dense Adam, CPU"), ("rows", "the same, row by row")):
        moved, of = 32 * found[key][0]["elements"], found[key][0]["of"]
        least, took = moved / max(found["copy"]), cpu_of([epoch_of(one) for one in found[key]]) / of
        rows.append([title, moved, least, took])
    rows += [[f"`{limit.case}`, GPU", limit.bytes, limit.least, limit.took] for limit in gpu_limits(lines)]
    cells = [
        [title, gigabytes(moved), f"{1e3 * least:.3g}", f"{1e3 * took:.3g}", f"{least / took:.0%}"]
        for title, moved, least, took in rows
    ]
    return table(["GMF with DeCA", "bytes a step", "limit, ms a step", "measured, ms a step", "of the limit"], cells)


def page(results: Results, device: str, lines: list[Results]) -> str:
    checks = targets.every(results, lines)
    looks = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return looks.from_string((HERE / "page.md.j2").read_text(encoding="utf-8")).render(
        results=results,
        device=device,
        checks=checks,
        checks_table=table(
            ["", "asked", "reached", ""],
            [[check.what, check.asked, check.reached, "met" if check.met else "**missed**"] for check in checks],
        ),
        gpu_table=gpu_table(lines),
        peers_table=peers_table(results),
        slower=slower(results),
        wall_table=wall_table(results),
        stack_table=stack_table(results),
        size_table=size_table(results),
        electronics_table=electronics_table(results),
        limits_table=limits_table(results, lines),
        slopes={SIZES[kind]: slope(found) for kind, found in sizes_of(results).items()},
        linear=targets.LINEAR,
        copy=max(results["electronics"]["copy"]),
        gpu_copy=GPU_COPY,
        by_rows_share=dense_share(results),
        products={part: products_share(results, part) for part in ("neumf", "lightgcn-64", "lightgcn-32")},
        rounds=len(results["neumf"]["libraries"]["ours"]["epoch"]),
        apart=[name for name, part in results.items() if part.get("apart")],
        loads=[load for part in results.values() if "load" in part for load in part["load"]],
    )


def main() -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    device, *lines = (HERE / "gpu-results.jsonl").read_text(encoding="utf-8").splitlines()
    text = page(results, device, [json.loads(line) for line in lines if line])
    for name, drawing in plots.every(results).items():
        (DOCS / "images" / name).write_text(drawing, encoding="utf-8")
    (DOCS / "performance.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
