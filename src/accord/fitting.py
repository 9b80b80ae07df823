"""`accord.fit`: from data, a model and a method to a trained recommender."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from accord.data.columns import Columns
from accord.data.interactions import Dataset
from accord.data.load import load
from accord.evaluation.evaluate import Evaluation, Relevant, validation_part
from accord.io.files import only_writer
from accord.io.noted import noted, noting
from accord.methods import MethodSpec
from accord.models import ModelSpec
from accord.nn.ranks import ALONE, Ranks
from accord.protocol import Protocol
from accord.recommender.recommender import Recommender
from accord.training.callbacks import Callback, watched_by
from accord.training.plan import find_device, model_and_method, plan
from accord.training.processes import evaluate_together, gathered, require_shardable
from accord.training.run import RunSpec
from accord.training.stack import train_stack
from accord.training.trainer import Diverged, Progress


def fit(
    data: Any,
    model: ModelSpec | None = None,
    method: MethodSpec | None = None,
    *,
    protocol: str | Protocol = "corrected",
    seeds: int | Sequence[int] = 1,
    options: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    device: str = "auto",
    ks: Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    refit: bool | None = None,
    columns: Columns | Mapping[str, str] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Recommender:
    """Train, evaluate and (with `out`) save a recommender.

    `data`: a `Dataset`, or anything that `accord.load` takes. With neither `model` nor `method`, the best that is found
    for the data (`auto`); a learned model is trained with DeCA, and DeCA trains GMF, where one of them is not given.
    `seeds`: how many, from 2019 on, or which.
    `options`: `{"method.c1": 100, "model.dim": 64, "train.l2": 0.1, "protocol.ties": "index"}`.
    `refit`: whether to fit it again on train, validation and test together once it is evaluated, to recommend from
    everything; None: where that takes no training loop, and under the corrected protocol.
    `columns`: which columns of the data are what. `callbacks`: who is told how it goes.
    Runs that diverge are left out, with a warning; where none is left, that is an error.

    >>> rec = accord.fit(accord.load("demo"), "ease")
    >>> rec.recommend(["u0001"], k=3).num_rows
    3
    """
    began = time.perf_counter()
    dataset = load(data, columns=columns)
    run = plan(dataset, *model_and_method(model, method), protocol, seeds, options, epochs, ks)
    watch = watched_by(callbacks)
    for callback in callbacks:
        callback.on_start(run.config.model_dump(mode="json"))
    with noting(read_seconds=time.perf_counter() - began):
        made = fit_run(dataset, run, device=device, out=out, resume=resume, refit=refit, watch=watch)
    assert made is not None  # one process is the first
    for callback in callbacks:
        callback.on_metrics(made.metrics["mean"])
    return made


def fit_run(
    data: Dataset,
    run: RunSpec,
    *,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    refit: bool | None = None,
    watch: Callable[[Progress], None] | None = None,
    ranks: Ranks = ALONE,
) -> Recommender | None:
    """Train, evaluate and save a run that was planned. Several processes call it with the same arguments and the whole
    data: the recommender comes back in the first, which writes it where all can write, and None elsewhere.
    """
    on, folder, first = find_device(device), None if out is None else Path(out), ranks.rank == 0
    require_shardable(ranks, run, data)
    with only_writer(folder if first else None):
        began, lost = time.perf_counter(), ""
        try:
            method, states = train_stack(
                data, run, on, folder=folder, resume=resume, watch=watch if first else None, ranks=ranks
            )
        except Diverged as error:
            if error.rest is None:
                raise
            (run, method, states), lost = error.rest, str(error)
            warnings.warn(lost, stacklevel=3)
        seconds = {"read": noted("read_seconds", 0.0), "train": time.perf_counter() - began}

        began = time.perf_counter()
        relevant = Relevant.of_test(data, run.config.protocol)
        held_out = bool(data.test_noisy or data.test)
        evaluation = (
            evaluate_together(ranks, run, data, method, relevant, on, watch if first else None)
            if held_out
            else Evaluation.none(len(run.config.seeds))
        )
        whole = gathered(ranks, run, data, method)
        if whole is None or evaluation is None:
            return None
        made = Recommender.of_training(run, data, whole, states, relevant, evaluation)
        made.judge_members(relevant)
        if run.config.protocol.test_history == "train+valid" and held_out:
            made = _with_validation(made, data, relevant, on, watch)
        seconds["evaluate"] = time.perf_counter() - began

        usual = not run.kind.learns and run.config.protocol.name == "corrected"
        if (usual if refit is None else refit) and made.holds_out:
            began, everything = time.perf_counter(), made.everything()
            again = made.run.on_everything(states, made.chosen)
            trained = train_stack(everything, again, on, watch=watch)[0]
            made.take_over(again, trained, everything.training_csr(again.columns))
            seconds["refit"] = time.perf_counter() - began

        made.metrics["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
        more = {"ranks": ranks.size if ranks.size > 1 else None, "diverged": lost or None}
        more["command"] = noted("command", None)
        made.metrics |= {name: value for name, value in more.items() if value is not None}
        if folder is not None:
            made.save(folder)
        return made


def _with_validation(
    made: Recommender, data: Dataset, relevant: Relevant, device: torch.device, watch: Callable[[Progress], None] | None
) -> Recommender:
    """The recipe that was chosen, fitted on train and validation, which both came before the test, and judged by it."""
    whole = data.before_test(validation_part(data, made.run.config.protocol))
    method, states = train_stack(whole, made.run, device, watch=watch)
    again = Recommender.of_training(made.run, whole, method, states, relevant)
    for entry, before in zip(again.metrics["runs"], made.metrics["runs"], strict=True):
        entry |= {name: before[name] for name in ("valid_ndcg@20",) if name in before}
    kept = {name: again.metrics[name] for name in ("runs", "mean", "std", "groups")}
    again.metrics = made.metrics | kept | {"before_validation": {"mean": made.metrics["mean"]}}
    again.asked = made.asked
    return again


def deterministic() -> None:
    """From now on, in this process, training and ranking on CUDA give the same bits every time, and take longer.

    A CPU does so always. Call it before CUDA is used.

    >>> accord.deterministic()
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which cuBLAS reads when it starts
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing reads such memory
