"""`accord demo`: training, comparison and noise detection on simulated data with labelled noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from accord.cli.options import Device

if TYPE_CHECKING:
    from accord.recommender.recommender import Recommender

ROWS = (
    *(("auto", None), ("popularity", None), ("ease", None)),
    *(("gmf", "normal"), ("gmf", "deca"), ("gmf", "deca-p")),
)


def demo(
    out: Annotated[Path, Option(help="folder of the runs and the report")] = Path("runs/demo"),
    seeds: Annotated[int, Option(help="runs of each method")] = 3,
    device: Device = "auto",
) -> None:
    """Train, compare and detect noise on simulated data; writes a report."""
    import numpy as np

    from accord.cli.display import print_table, say, training_progress
    from accord.config import full_name
    from accord.data.simulate import simulate
    from accord.evaluation.noise import auc
    from accord.fitting import RunContext, fit_run
    from accord.report.run_report import write_report
    from accord.training.plan import plan

    simulation = simulate()
    data, real = simulation.dataset, simulation.is_real
    say(
        f"demo data: {len(data.users):,} users, {len(data.items):,} items, {len(data.train):,} training interactions, "
        f"{1 - real.mean():.0%} of them noise; the models do not know which"
    )
    runs: list[tuple[str, Recommender]] = []
    rows = []
    for model, method in ROWS:
        folder = out / (model if method is None else f"{model}-{method}")
        command = f"accord train demo --model {model}{f' --method {method}' if method else ''} --seeds {seeds}"
        with training_progress() as watch:
            run = plan(data, model, method or "normal", seeds=seeds)
            trained = fit_run(data, run, device=device, out=folder, watch=watch, context=RunContext(command))
        runs.append((str(folder), trained))
        detected = ""
        if method is not None:
            detected = f"{auc(trained.beliefs(data.train).column('belief').to_numpy(), real):.3f}"
        elif model == "popularity":
            counts = trained.train.popularity()
            detected = f"{auc(counts[data.items.rows(data.train.items)].astype(np.float64), real):.3f}"
        mean, std, several = trained.metrics["mean"], trained.metrics["std"], len(trained.metrics["runs"]) > 1
        cells = [f"{mean[m]:.4f}" + (f" ± {std[m]:.4f}" if several else "") for m in ("recall@20", "ndcg@20")]
        rows.append([full_name(model, method), *cells, detected, str(folder)])
    print_table(["on the clean test", "recall@20", "ndcg@20", "noise detection (AUC)", "run folder"], rows)
    runs = [*runs[3:], *runs[:3]]  # GMF without denoising first: the others are tested against it
    say(f"report: {write_report(out / 'report.html', runs)}")
