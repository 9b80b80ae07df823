"""The HTML report: one file that opens from disk, with its figures inside."""

from __future__ import annotations

import io
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.data.interactions import Dataset
from accord.files import replacing
from accord.version import __version__

COLUMNS = ("recall@5", "recall@20", "ndcg@20")


def write_report(path: Path, data: Dataset, real: npt.NDArray[np.bool_], results: list[dict[str, Any]]) -> Path:
    """A comparison on data whose noise is known; `results` as `accord demo` gathers them."""
    from jinja2 import Environment

    best = max(range(len(results)), key=lambda number: results[number]["metrics"]["mean"]["recall@20"])
    rows = []
    for number, result in enumerate(results):
        metrics, found = result["metrics"], result["detection"]
        spread = len(metrics["runs"]) > 1
        cells = [
            f"{metrics['mean'][name]:.4f}" + (f" ± {metrics['std'][name]:.4f}" if spread else "") for name in COLUMNS
        ]
        rows.append(
            {
                "name": result["name"],
                "cells": cells,
                "auc": "" if found is None else f"{found['auc']:.3f}",
                "precision": "" if found is None else f"{found['average_precision']:.3f}",
                "best": number == best,
                "folder": result["folder"],
                "protocol": metrics["protocol"]["name"],
                "seeds": ", ".join(str(run["seed"]) for run in metrics["runs"]),
            }
        )
    inside = resources.files("accord.report")
    template = Environment(autoescape=True).from_string(inside.joinpath("report.html.j2").read_text())
    html = template.render(
        style=inside.joinpath("style.css").read_text(),
        title=f"Accord on {data.name}",
        lead=f"{len(data.users):,} users, {len(data.items):,} items, {len(data.train):,} training interactions, "
        f"{1 - real.mean():.0%} of which are noise that the models were not told of.",
        columns=COLUMNS,
        rows=rows,
        noise_rate=f"{1 - real.mean():.0%}",
        figures=[_posteriors(real, results)],
        command=f"accord demo --out {path.parent}",
        version=__version__,
    )
    with replacing(path) as temporary:
        temporary.write_text(html)
    return path


def _posteriors(real: npt.NDArray[np.bool_], results: list[dict[str, Any]]) -> dict[str, str]:
    """Where real and noisy interactions lie on each method's scale."""
    from matplotlib.figure import Figure

    shown = [result for result in results if result["p_real"] is not None]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    bins = np.linspace(0, 1, 26)
    for axis, result in zip(axes, shown, strict=True):
        for mask, label, style in (
            (real, "real", {"color": "#0b5cad", "alpha": 0.55}),
            (~real, "noise", {"color": "#b3400a", "histtype": "step", "linewidth": 1.8, "hatch": "////"}),
        ):
            weights = np.full(int(mask.sum()), 100 / max(1, mask.sum()))
            axis.hist(result["p_real"][mask], bins=bins, weights=weights, label=label, **style)
        axis.set_title(result["name"], fontsize=10)
        axis.set_xlabel("probability of being real")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("% of interactions")
    axes[-1].legend(frameon=False)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    svg = re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)
    return {
        "title": "What the methods believe of real and of noisy interactions",
        "svg": svg.replace("<svg ", '<svg role="img" aria-label="Histograms of the probability of being real" ', 1),
        "caption": "Share of the training interactions by the probability that each method gives them. "
        "A method that tells noise apart has the two shapes apart.",
    }
