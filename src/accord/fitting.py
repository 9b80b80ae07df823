"""`accord.fit`: from data, a model and a method to a trained recommender."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accord.consensus.training import Trained, train_run
from accord.data.columns import Columns
from accord.data.interactions import Dataset
from accord.data.load import load
from accord.errors import Argument, InputError
from accord.evaluation.evaluate import Evaluation, Relevant, validation_part
from accord.io.files import only_writer
from accord.methods import MethodSpec
from accord.models import ModelSpec
from accord.protocol import Protocol
from accord.recommender.recommender import Recommender
from accord.recommender.updating import on
from accord.training.callbacks import Callback, watched_by
from accord.training.plan import find_device, model_and_method, plan
from accord.training.run import RunSpec
from accord.training.trainer import Diverged, Progress, Watch


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
    labels: Any = None,
    budget: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> Recommender:
    """Train, evaluate and (with `out`) save a recommender.

    `data`: a `Dataset`, or anything that `accord.load` takes. If neither `model` nor `method` is given,
    `auto` searches for the best; if one is, a learned model is trained with DeCA, and a method trains GMF.
    `seeds`: how many, from 2019 on, or which.
    `options`: `{"method.c1": 100, "model.dim": 64, "train.l2": 0.1, "protocol.ties": "index"}`.
    `refit`: whether to fit it again on train, validation and test together after the evaluation, to recommend from
    everything; None: if that needs no training loop, under the corrected protocol.
    `columns`: which columns of the data are what; `labels`: which interactions are real, as `accord.load` takes it.
    `budget`: seconds that the search of `auto` may take on two ordinary cores. `callbacks`: what follows the training.
    Runs that diverge are left out with a warning; if none is left, that is an error.

    >>> rec = accord.fit(accord.load("demo"), "ease")
    >>> rec.recommend(["u0001"], k=3).num_rows
    3
    """
    began = time.perf_counter()
    dataset = load(data, columns=columns, labels=labels)
    if budget is not None:
        if (model or method or "auto") != "auto":
            raise InputError(Argument("budget"), " limits the search of auto; leave it or the model out.")
        options = {**(options or {}), "model.budget": budget}
    run = plan(dataset, *model_and_method(model, method), protocol, seeds, options, epochs, ks)
    watch = watched_by(callbacks)
    for callback in callbacks:
        callback.on_start(run.config.model_dump(mode="json"))
    context = RunContext(read_seconds=time.perf_counter() - began)
    recommender = fit_run(
        dataset, run, device=device, out=out, resume=resume, refit=refit, watch=watch, context=context
    )
    for callback in callbacks:
        callback.on_metrics(recommender.metrics["mean"])
    return recommender


@dataclass(frozen=True)
class RunContext:
    """How a run came about, written down with its results."""

    command: str | None = None  # that repeats it
    read_seconds: float = 0.0  # that reading the data took
    also: Dataset | None = None  # the same log split by the time of each user, to evaluate the recipe on too


def fit_run(
    data: Dataset,
    run: RunSpec,
    *,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    refit: bool | None = None,
    watch: Watch = None,
    context: RunContext = RunContext(),  # noqa: B008  # it is frozen
) -> Recommender:
    """Train, evaluate and save a run that was planned."""
    place, folder = find_device(device), None if out is None else Path(out)
    with only_writer(folder):
        times = [time.perf_counter()]
        trained, diverged = _search(data, run, place, folder, resume, watch)
        times.append(time.perf_counter())
        recommender = _evaluate(trained, data, place, watch)
        times.append(time.perf_counter())
        usual = not run.kind.learns and run.config.protocol.name == "corrected"
        if (usual if refit is None else refit) and recommender.holds_out:
            _refit(recommender, trained, place, watch)
            recommender.metrics["refit"]["alone"] = not refit and recommender.num_runs == 1  # unless both are asked for
            times.append(time.perf_counter())

        if (also := context.also) is not None:
            recommender.metrics["by_user"] = {"mean": _judged(recommender.run, also, place, watch).metrics["mean"]}

        took = zip(("train", "evaluate", "refit"), np.diff(times), strict=False)
        seconds = {"read": context.read_seconds, **{name: float(value) for name, value in took}, **trained.seconds}
        recommender.metrics["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
        more = {"diverged": diverged, "command": context.command}
        recommender.metrics |= {name: value for name, value in more.items() if value is not None}
        if folder is not None:
            recommender.save(folder, overwrite=True)
        return recommender


def _search(
    data: Dataset, run: RunSpec, device: torch.device, folder: Path | None, resume: bool, watch: Watch
) -> tuple[Trained, str | None]:
    """The trained run, the recipe of a consensus chosen on the validation; and a sentence on runs that diverged."""
    try:
        return train_run(data, run, device, folder=folder, resume=resume, watch=watch), None
    except Diverged as error:
        if error.rest is None:
            raise
        rest, method, states = error.rest
        warnings.warn(str(error), stacklevel=4)
        return Trained(rest, method, states, method.notes), str(error)


def _evaluate(trained: Trained, data: Dataset, device: torch.device, watch: Watch) -> Recommender:
    """The recommender with its metrics on the test.
    A log with times asks for one more fit: the recipe on train and validation, which both came before the test; what
    was learned stays, with the longer histories."""
    run, rules = trained.run, trained.run.config.protocol
    relevant, held_out = Relevant.of_test(data, rules), bool(data.test_noisy or data.test)

    def on_progress(done: int) -> None:
        if watch is not None:
            watch(Progress("the test", done, len(relevant.users), unit="users"))

    none = None if held_out else Evaluation.none(len(run.config.seeds))
    recommender = Recommender.of_training(trained, data, relevant, none, on_progress)
    recommender.evaluate_members(trained, relevant)
    if rules.test_history != "train+valid" or not held_out:
        return recommender
    before_test = data.before_test(validation_part(data, rules))
    if run.kind.learns:
        later = replace(trained, method=on(before_test, run, trained.method, data, device))
    else:
        later = train_run(before_test, run, device, watch=watch)
    again = Recommender.of_training(later, before_test, relevant)
    for entry, before in zip(again.metrics["runs"], recommender.metrics["runs"], strict=True):
        entry |= {name: before[name] for name in ("valid_ndcg@20",) if name in before}
    newer = {name: again.metrics[name] for name in ("runs", "mean", "std", "groups")}
    again.metrics = recommender.metrics | newer | {"before_validation": {"mean": recommender.metrics["mean"]}}
    return again


def _judged(run: RunSpec, data: Dataset, device: torch.device, watch: Watch) -> Recommender:
    """A recipe with its metrics on another split of the log, by one fit."""
    rules = run.config.protocol
    if run.kind.learns or rules.test_history != "train+valid":
        return _evaluate(_search(data, run, device, None, False, watch)[0], data, device, watch)
    before_test = data.before_test(validation_part(data, rules))
    trained = train_run(before_test, run, device, watch=watch)
    return Recommender.of_training(trained, before_test, Relevant.of_test(data, rules))


def _refit(recommender: Recommender, trained: Trained, device: torch.device, watch: Watch) -> None:
    everything = recommender.everything()
    again = recommender.run.on_everything(trained.states, recommender.chosen)
    method = train_run(everything, again, device, watch=watch).method
    recommender.take_over(again, method, everything.training_csr())


def deterministic() -> None:
    """From now on, in this process, training and ranking on CUDA give the same bits every time, and take longer.

    A CPU does so always. Call it before CUDA is used.

    >>> accord.deterministic()
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which cuBLAS reads when it starts
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing reads such memory
