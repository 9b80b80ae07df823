"""Figures: SVG with the same bytes every time, and lines that differ in more than colour."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from accord_lab.names import ORACLE, Floats, display_name, standard_deviation
from accord_lab.writing import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# dark to light, so that they differ in a grey print; each has a different dash and marker
STYLES = (
    {"color": "#000000", "linestyle": "-", "marker": "o"},
    {"color": "#0b5cad", "linestyle": "--", "marker": "s"},
    {"color": "#d55e00", "linestyle": "-.", "marker": "^"},
    {"color": "#56b4e9", "linestyle": ":", "marker": "D"},
)
LIGHT, DARK = {"color": "#cfe3f5", "edgecolor": "#333333"}, {"color": "#d55e00", "edgecolor": "#333333", "hatch": "///"}
LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, scaled and read by screen readers
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.6,
}
# of each method in every chart; dark and light in turn, so that neighbours differ in a grey print
_MARKED: dict[str, tuple[str, str, Any]] = {  # colour, marker and dash of each method
    "normal": ("#000000", "o", "-"), "wbpr": ("#999999", "v", ":"), "tce": ("#0072b2", "s", "--"),
    "rce": ("#56b4e9", "D", "-."), "dcf": ("#cc79a7", "h", "--"), "udt": ("#117733", "d", "-."),
    "pld": ("#882255", "<", ":"), "eard": ("#44aa99", "p", "-"), "ensemble": ("#8a6d00", "P", ":"),
    "deca": ("#d55e00", "^", "-"), "deca-p": ("#e69f00", "X", "--"), "popularity": ("#555555", "", (0, (1, 1))),
    "ease": ("#009e73", "", (0, (6, 2))), ORACLE: ("#009e73", "", (0, (3, 1, 1, 1))),
}  # fmt: skip
OTHER = {"color": "#444444", "marker": "*", "linestyle": "-"}  # a method of the caller
_SOLVED: dict[str, tuple[str, str, Any]] = {  # where these are curves
    "item-knn": ("#0072b2", "s", "-"), "user-knn": ("#56b4e9", "D", "--"),
    "graph-filter": ("#882255", "<", ":"), "ials": ("#d55e00", "^", "-."),
}  # fmt: skip
LOOKS, SOLVED = (
    {name: {"color": colour, "marker": marker, "linestyle": dash} for name, (colour, marker, dash) in looks.items()}
    for looks in (_MARKED, _SOLVED)
)
LEVELS: tuple[dict[str, Any], ...] = (
    {"color": "#555555", "linestyle": (0, (1, 1))},
    {"color": "#009e73", "linestyle": (0, (6, 2))},
    {"color": "#882255", "linestyle": (0, (3, 1, 1, 1))},
)

RatePanels = dict[tuple[str, str], dict[str, dict[float, float]]]  # by model and kind of noise: a curve per method
ShareCurves = dict[str, dict[float, list[float]]]  # by way of drawing labels and by share: the values of all draws


def panels(columns: int, rows: int = 1, width: float = 4.2, height: float = 3.2) -> tuple[Canvas, list[Any]]:
    """A drawing with panels side by side, row by row."""
    import matplotlib  # here, as training does not need it
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(LOOK):
        canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False)
    return canvas, list(axes.flat)


def drawn(canvas: Canvas, file: str, title: str, caption: str) -> Figure:
    """The drawing as a figure of a page, without date or random names in it."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context(LOOK | {"svg.hashsalt": file}):
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(title, out.getvalue(), caption, file)


def legend_below(canvas: Canvas, axes: Sequence[Any], wraps: bool = False) -> None:
    """One legend for all panels, under them, with methods in the order of LOOKS."""
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    order = [display_name(name) for name in LOOKS]
    labels = sorted(handles, key=lambda label: order.index(label) if label in order else len(order))
    columns = min(5, int(canvas.get_figwidth() // 1.5)) if wraps else len(labels)
    canvas.legend([handles[one] for one in labels], labels, loc="outside lower center", ncols=columns, frameon=False)


def ranking(file: str, title: str, rows: Sequence[tuple[str, str, Floats]], ceiling: float | None) -> Figure:
    """Every row by NDCG@20, the best on top; models without a method are lines. `rows`: name, method, values."""
    learned = sorted(
        (row for row in rows if row[1] not in LOOKS or LOOKS[row[1]]["marker"]),
        key=lambda r: r[2].mean(),
    )
    fixed = {row[1]: float(row[2].mean()) for row in rows if row not in learned}
    if ceiling is not None:
        fixed[ORACLE] = ceiling
    canvas, (axis,) = panels(1, width=8, height=1.6 + 0.23 * len(learned))
    for place, (_, method, values) in enumerate(learned):
        look = {**LOOKS.get(method, OTHER), "linestyle": "none", "elinewidth": 1.2, "capsize": 2}
        label = display_name(method) if method in LOOKS else None  # others are named next to their rows
        axis.errorbar(values.mean(), place, xerr=standard_deviation(values), label=label, **look)
    for name, value in fixed.items():
        axis.axvline(
            value,
            color=LOOKS[name]["color"],
            linestyle=LOOKS[name]["linestyle"],
            label=display_name(name),
        )
    axis.set_yticks(range(len(learned)), [row[0] for row in learned])
    axis.set_ylim(-0.8, len(learned) - 0.2)
    axis.grid(axis="y")
    axis.set_xlabel("NDCG@20 on the clean test, mean and standard deviation over seeds")
    legend_below(canvas, [axis], wraps=True)
    caption = "The best row is on top. Lines: models without a method."
    return drawn(canvas, file, f"{title}: NDCG@20 of every row", caption)


def gains(file: str, title: str, tests: Mapping[tuple[str, str], Mapping[str, float]]) -> Figure:
    """The difference of each method from Normal of the same model, with its interval. `tests`: by model and method."""
    models = list(dict.fromkeys(model for model, _ in tests))
    places, names = [], []
    canvas, (axis,) = panels(1, width=8, height=1.2 + 0.22 * (len(tests) + len(models)))
    for place, ((model, method), test) in enumerate(tests.items()):
        y = -(place + models.index(model))
        look = LOOKS.get(method, OTHER)
        sure = test["p_holm"] < 0.05
        axis.plot([test["low"], test["high"]], [y, y], color=look["color"], linewidth=1.4)
        axis.plot(test["difference"], y, look["marker"], color=look["color"], mfc=look["color"] if sure else "white")
        places.append(y)
        names.append(f"{display_name(model)} + {display_name(method)}")
    axis.axvline(0, color="#000000", linewidth=0.8)
    axis.set_yticks(places, names)
    axis.grid(axis="x")
    axis.set_xlabel("NDCG@20 minus that of Normal, 95% interval over users and seeds")
    caption = (
        "Filled: p < 0.05 after Holm's correction (of these runs). If an interval includes 0, other seeds may differ."
    )
    return drawn(canvas, file, f"{title}: what each method adds to its model", caption)


def reliability(file: str, title: str, curves: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> Figure:
    """The share of pairs that are real at each probability. `curves`: by model and method, one per seed."""
    models = list(dict.fromkeys(model for model, _ in curves))
    columns = min(3, len(models))
    canvas, axes = panels(columns, -(-len(models) // columns), width=3.3, height=3.2)
    for axis, model in zip(axes, models, strict=False):
        axis.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for (name, method), seeds in curves.items():
            if name == model:
                x, y = _joined(seeds)
                axis.plot(x, y, label=display_name(method), markersize=4, linewidth=1.2, **LOOKS.get(method, OTHER))
        axis.set(title=display_name(model), xlim=(0, 1), ylim=(0, 1), xlabel="posterior", ylabel="share that is real")
    for axis in axes[len(models) :]:
        axis.set_visible(False)
    legend_below(canvas, [axes[0]], wraps=True)
    caption = "The grey diagonal is perfect. Bins of a tenth; those with less than 0.1% of the pairs are left out."
    return drawn(canvas, file, f"{title}: is the posterior calibrated", caption)


def _joined(seeds: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats]:
    """The bins of all seeds together: mean probability and share of real pairs."""
    counts = np.array([one["count"] for one in seeds], dtype=np.float64)
    total = counts.sum(0)
    large = total >= 0.001 * total.sum()
    mean, real = (np.array([one[name] for one in seeds]) * counts for name in ("mean", "real"))
    return mean.sum(0)[large] / total[large], real.sum(0)[large] / total[large]


def by_rate(file: str, title: str, label: str, shown: RatePanels, level: float, caption: str) -> Figure:
    kinds = list(dict.fromkeys(kind for _, kind in shown))
    canvas, axes = panels(len(kinds), len(shown) // len(kinds), width=3.4, height=3.0)
    for axis, ((model, kind), curves) in zip(axes, shown.items(), strict=True):
        axis.axhline(level, color="#bbbbbb", linewidth=1)
        for method, points in curves.items():
            rates = sorted(points)
            values = [points[rate] for rate in rates]
            look = SOLVED.get(method) or LOOKS.get(method, OTHER)
            axis.plot([100 * r for r in rates], values, label=display_name(method), markersize=5, **look)
        axis.set(title=f"{display_name(model)}, {kind} noise", xlabel="injected pairs, % of all", ylabel=label)
        axis.sharey(axes[0])
    legend_below(canvas, axes, wraps=True)
    return drawn(canvas, file, title, caption)


def by_share(file: str, title: str, shown: Mapping[str, tuple[ShareCurves, Mapping[str, float]]]) -> Figure:
    """What labels are worth, by their share. `shown`: by what is measured, the curves, and what is reached without
    labels or with all of them."""
    canvas, axes = panels(len(shown), width=4.6, height=3.6)
    for axis, (what, (curves, levels)) in zip(axes, shown.items(), strict=True):
        for look, (way, points) in zip(STYLES, curves.items(), strict=False):
            shares = sorted(points)
            percent = [100 * share for share in shares]
            mean, sd = (np.array([of(points[share]) for share in shares]) for of in (np.mean, standard_deviation))
            axis.fill_between(percent, mean - sd, mean + sd, color=look["color"], alpha=0.15, linewidth=0)
            axis.plot(percent, mean, label=way, markersize=5, **look)
        for dash, (name, level) in zip(LEVELS, levels.items(), strict=False):
            axis.axhline(level, label=name, linewidth=1.2, **dash)
        axis.set_xscale("log")
        every = sorted({100 * share for points in curves.values() for share in points})
        axis.set_xticks(every, [f"{one:g}" for one in every])
        axis.minorticks_off()
        axis.set(xlabel="labelled, %", ylabel=what)
        axis.grid(axis="y")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False, fontsize=9)
    caption = "The mean over draws of the labels, the band one standard deviation. Lines: without labels, or with all."
    return drawn(canvas, file, title, caption)
