"""Cross-fitting: every interaction is judged by models that were trained without it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from accord.auditing.interaction_log import Log
from accord.auditing.p_real import Floats, percentiles
from accord.comparing.executor import Here, Job, Workers
from accord.comparing.memory import bytes_of_a_run
from accord.config import full_name
from accord.data.csr import IntArray
from accord.data.folds import Fold, cut
from accord.errors import ColumnArgument, InputError
from accord.io.tensors import read_tensors, write_tensors
from accord.models import can_hold
from accord.posteriors.local_fdr import chance_of_real
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.stack import trained_without
from accord.training.trainer import Progress
from accord.version import __version__

JUDGES = (("popularity", "normal"), ("ease", "normal"), ("gmf", "normal"), ("gmf", "deca-p"))
OPTIONS = {"train.patience": 5}
EPOCHS = 30

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Opinion:
    """What every run says about every interaction of a log."""

    runs: list[dict[str, Any]]  # model, method and seed of each
    p_real: Floats  # [R, n], NaN where `known` is False
    known: Bools  # [n] whether user and item were seen in training, so that a model can judge the pair
    popularity: IntArray  # [n] interactions of the item outside the fold
    folds: int


def cross_fit(
    log: Log,
    *,
    seeds: int | Sequence[int] = 2,
    folds: int = 5,
    device: torch.device,
    work: Path | None = None,
    watch: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
) -> Opinion:
    """Judge every interaction. What is finished is kept in `work`, so that an interrupted audit can continue."""
    if np.bincount(log.users).max() < 2:
        raise InputError(
            f"{log.data.name}: no user has two interactions, so none can be judged by what else its user did; check ",
            ColumnArgument("user"),
            ".",
        )
    judges = [(model, method) for model, method in JUDGES if can_hold(model, len(log.data.items))]
    plans = [plan(log.data, model, method, seeds=seeds, options=OPTIONS, epochs=EPOCHS) for model, method in judges]
    runs = [
        {"model": run.config.model, "method": run.config.method, "seed": seed if run.kind.learns else None}
        for run in plans
        for seed in run.config.seeds
    ]
    places = np.full((len(runs), len(log)), np.nan)
    known, popularity = np.zeros(len(log), dtype=bool), np.zeros(len(log), dtype=np.int64)
    ends = np.cumsum([len(run.config.seeds) for run in plans])
    memory = [bytes_of_a_run(run, log.data) * len(run.config.seeds) for run in plans]
    waiting: list[tuple[IntArray, Path | None]] = []  # for each job: the rows of `places` it fills, and its file
    jobs: list[Job] = []
    cuts = list(cut(log.users, log.items, len(log.data.users), len(log.data.items), folds))
    for fold in cuts:
        counts = np.bincount(log.items[~fold.held], minlength=len(log.data.items))
        popularity[fold.held] = counts[log.items[fold.held]]
        # a model knows neither a user nor an item that it has not trained on
        trained = ~fold.held & ~fold.valid
        seen = [np.bincount(rows[trained], minlength=1 + rows.max())[rows] > 0 for rows in (log.users, log.items)]
        known[fold.held] = (seen[0] & seen[1])[fold.held]
    for run, end, bytes_ in list(zip(plans, ends, memory, strict=True))[::-1]:  # what takes longest first
        rows = np.arange(end - len(run.config.seeds), end)
        for number, fold in enumerate(cuts, 1):
            kept = None if work is None else work / f"{_key(log, run, fold)}.safetensors"
            if kept is not None and kept.exists():
                places[np.ix_(rows, fold.held)] = read_tensors(kept)[0]["percentiles"].numpy()
                continue
            name = full_name(run.config.model, run.config.method)
            waiting.append((rows, kept))
            jobs.append(Job(f"fold {number} of {folds}, judged by {name}", (run, fold), memory=bytes_))
    bare = replace(log, raw=log.rows, columns=pa.table({}), labels=None, label=None)  # all that judging needs
    judged = (workers or Here()).each(_judge, bare, jobs, device, watch, lambda text: say(f"noise, {text}"))
    for number, found in judged:
        rows, kept = waiting[number]
        places[np.ix_(rows, jobs[number].task[1].held)] = found
        if kept is not None:
            write_tensors(kept, {"percentiles": torch.tensor(found)})
    known &= ~np.isnan(places).any(0)
    p_real = np.full(places.shape, np.nan)
    for row, place in zip(p_real, places, strict=True):
        row[known] = chance_of_real(place[known])
    return Opinion(runs, p_real, known, popularity, folds)


def _judge(
    log: Log,
    task: tuple[RunSpec, Fold],
    device: torch.device,
    watch: Callable[[Progress], None] | None,
    say: Callable[[str], None],
) -> Iterator[Floats]:
    """Percentiles of the held-out interactions in every run of a stack: [R, held], in the order of the log."""
    run, fold = task
    method, held = trained_without(log.data, log.rows, run, fold, device, watch)
    with torch.inference_mode():
        found = percentiles(
            method.score_all, len(method.target.seeds), held, log.csr(), device, method.target.user_block
        )
    yield found[:, np.searchsorted(held.keys, log.users[fold.held] * held.num_items + log.items[fold.held])]


def _key(log: Log, run: RunSpec, fold: Fold) -> str:
    """Identifies a file of percentiles: the version, the log, the fold and everything that the run depends on."""
    digest = hashlib.sha256(f"{__version__} {run.config.model_dump_json()}".encode())
    for array in (log.users, log.items, fold.held, fold.valid):
        digest.update(array.tobytes())
    return f"{run.config.model}-{run.config.method}-{digest.hexdigest()[:16]}"
