"""The plots of docs/performance.md."""

from __future__ import annotations

from typing import Any

from figures import NAMES, cpu_of, epoch_of, median, sizes_of

from accord_lab.drawing import STYLES, drawn, legend_below, panels

LOOKS = {
    "ours": {"color": "#d55e00", "marker": "o"}, "recbole": {"color": "#0b5cad", "marker": "s"},
    "cornac": {"color": "#56b4e9", "marker": "^"}, "implicit": {"color": "#009e73", "marker": "D"},
    "products": {"color": "#666666", "marker": "|"},
}  # fmt: skip
PARTS = {
    "neumf": "NeuMF", "lightgcn-64": "LightGCN (64)", "lightgcn-32": "LightGCN (32)", "gmf": "GMF",
    "cdae": "CDAE", "mf": "MF (implicit: BPR)",
}  # fmt: skip

SIZES = {
    "fixed": "tables stay the same",
    "growing": "tables grow, Adam",
    "decoupled": "tables grow, decoupled",
}


def peers(results: dict[str, Any]) -> str:
    canvas, axes = panels(2, width=4.6, height=3.6)
    for axis, command, title in zip(axes, ("epoch", "rank"), ("An epoch", "All users ranked"), strict=True):
        for library, look in LOOKS.items():
            places = [(place, part) for place, part in enumerate(PARTS) if library in results[part]["libraries"]]
            values = [cpu_of(results[part]["libraries"][library][command]) for _, part in places]
            look = look | {"linestyle": "none", "markersize": 12 if look["marker"] == "|" else 7}
            axis.plot(values, [-place for place, _ in places], label=NAMES[library], **look)
        axis.set_xscale("log")
        axis.set(title=title, xlabel="CPU seconds, one thread")
        names = PARTS.values() if axis is axes[0] else [""] * len(PARTS)
        axis.set_yticks([-place for place in range(len(PARTS))], names)
        axis.set_ylim(-len(PARTS) + 0.5, 0.5)
        axis.grid(axis="both")
    legend_below(canvas, axes)
    return drawn(canvas, "performance-peers.svg", "", "").svg


def stack(results: dict[str, Any]) -> str:
    kinds = {"runs": (1, "one thread, CPU time"), "shared": (0, "a thread a core, wall time")}
    canvas, (axis,) = panels(1, width=5.4, height=3.4)
    for (key, (clock, title)), look in zip(kinds.items(), STYLES, strict=False):
        runs = results["stack"][key]
        numbers = [int(number) for number in runs]
        each = [1e3 * median(measured["epoch"], clock) / int(number) for number, measured in runs.items()]
        axis.plot(numbers, each, label=title, **look)
    axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, [str(number) for number in numbers])
    axis.set(xlabel="runs in the stack", ylabel="ms an epoch, each run", ylim=(0, None))
    axis.grid(axis="y")
    legend_below(canvas, [axis])
    return drawn(canvas, "performance-stack.svg", "", "").svg


def size(results: dict[str, Any]) -> str:
    canvas, axes = panels(2, width=4.4, height=3.4)
    for (kind, measured), look in zip(sizes_of(results).items(), STYLES, strict=False):
        title = SIZES[kind]
        pairs = [one["pairs"] for one in measured]
        axes[0].plot(pairs, [epoch_of(one)[1] for one in measured], label=title, **look)
        axes[1].plot(pairs, [one["peak"] / 1e9 for one in measured], label=title, **look)
    first = results["size"]["fixed"][0]
    ends = [first["pairs"], max(one["pairs"] for one in results["size"]["growing"])]
    linear = [epoch_of(first)[1] * end / first["pairs"] for end in ends]
    axes[0].plot(ends, linear, color="#999999", linewidth=1, linestyle=(0, (1, 2)), label="linear")
    for axis, label in zip(axes, ("CPU seconds of an epoch", "peak memory, GB"), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set(xlabel="interactions", ylabel=label)
        axis.grid(axis="both")
    axes[1].set_yticks([], minor=True)
    axes[1].set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    legend_below(canvas, axes)
    return drawn(canvas, "performance-size.svg", "", "").svg


def every(results: dict[str, Any]) -> dict[str, str]:
    return {f"performance-{draw.__name__}.svg": draw(results) for draw in (peers, stack, size)}
