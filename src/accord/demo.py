"""`accord demo`: the whole job on built-in data whose noise is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from accord.data.simulate import simulate
from accord.display import print_table, say, training_progress
from accord.experiment import fit
from accord.noise import detection
from accord.report import write_report

ROWS = (("popularity", None), ("ease", None), ("gmf", "normal"), ("gmf", "deca"), ("gmf", "deca-p"))


def run_demo(out: Path, seeds: int, device: str) -> None:
    """Train, compare, say how well the noise was found, and where everything lies."""
    simulation = simulate()
    data, real = simulation.dataset, simulation.is_real
    say(
        f"demo data: {len(data.users):,} users, {len(data.items):,} items, {len(data.train):,} training interactions, "
        f"{1 - real.mean():.0%} of them noise that the models are not told of"
    )
    results: list[dict[str, Any]] = []
    for model, method in ROWS:
        folder = out / (model if method is None else f"{model}-{method}")
        with training_progress() as watch:
            trained = fit(data, model, method or "normal", seeds=seeds, device=device, out=folder, watch=watch)
        found = None
        if method is not None:
            found = np.asarray(trained.noise(data.train).column("p_real"))
        elif model == "popularity":
            counts = trained.train.popularity()
            found = counts[data.items.rows(data.train.items)].astype(float)
        results.append(
            {
                "name": model if method is None else f"{model} + {method}",
                "metrics": trained.metrics,
                "folder": folder,
                "detection": None if found is None else detection(found, real),
                "p_real": None if method is None else found,
            }
        )
    rows = []
    for result in results:
        mean, std, runs = (result["metrics"][key] for key in ("mean", "std", "runs"))
        cells = [f"{mean[m]:.4f}" + (f" ± {std[m]:.4f}" if len(runs) > 1 else "") for m in ("recall@20", "ndcg@20")]
        noise = "" if result["detection"] is None else f"{result['detection']['auc']:.3f}"
        rows.append([result["name"], *cells, noise, str(result["folder"])])
    print_table(["on the clean test", "recall@20", "ndcg@20", "noise found (AUC)", "run folder"], rows)
    report = write_report(out / "report.html", data, real, results)
    say(f"report: {report}")
