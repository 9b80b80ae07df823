"""What metrics.json says of an evaluation: of each run, and of all of them together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accord.evaluation.evaluate import Evaluation
from accord.training.run import RunConfig
from accord.training.trainer import TrainState


def run_entries(
    config: RunConfig, evaluation: Evaluation, states: Sequence[TrainState], validate: Callable[[], float | None]
) -> list[dict[str, Any]]:
    """One entry per run. Where no stage was trained, nothing was watched: `validate` then measures NDCG@20."""
    entries = []
    watched = config.protocol.early_stop == "best-ndcg"
    for number, (seed, values) in enumerate(zip(config.seeds, evaluation.mean(), strict=True)):
        entry: dict[str, Any] = {"seed": seed, "metrics": values, "epochs": 0, "train_seconds": 0.0}
        found: float | None = None
        if states:
            last = states[-1]
            entry["epochs"] = last.stopped_at[number] or last.epoch
            entry["train_seconds"] = round(sum(state.seconds for state in states) / len(config.seeds), 3)
            best = last.best[number :: len(config.seeds)]  # of each member
            found = statistics.fmean(best) if watched and np.isfinite(best).all() else None
        elif watched:
            found = validate()
        entries.append(entry | ({} if found is None else {"valid_ndcg@20": found}))
    return entries


def summarise(evaluation: Evaluation) -> dict[str, Any]:
    """Mean and standard deviation over runs, and the means of warm and cold users apart."""
    runs = evaluation.mean()
    names = list(runs[0])
    groups = {}
    for name, keep in (("warm", evaluation.warm), ("cold", ~evaluation.warm)):
        means = evaluation.mean(keep)
        groups[name] = {
            "users": int(keep.sum()),
            "mean": {metric: statistics.fmean(run[metric] for run in means) for metric in names} if keep.any() else {},
        }
    return {
        "mean": {metric: statistics.fmean(run[metric] for run in runs) for metric in names},
        "std": {m: statistics.stdev(run[m] for run in runs) if len(runs) > 1 else 0.0 for m in names},
        "groups": groups,
    }
