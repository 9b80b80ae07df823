"""Comparisons: a grid of models, methods and options with several seeds, trained in stacks where possible."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from accord.comparing.executor import Here, Job, Workers
from accord.comparing.memory import stacks_that_fit, train_in_memory
from accord.comparing.results import PerUser, Results, run_key
from accord.config import full_name
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.io.files import only_writer
from accord.methods import find_method
from accord.methods.base import Method
from accord.models import is_solved, own_class
from accord.recommender.recommender import Recommender
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.trainer import Progress, TrainConfig

KEPT = ("recall@20", "ndcg@20")  # of every user, for the paired tests
ALWAYS = ("popularity", "ease")  # part of every comparison
DIGITS = 8  # of a figure in the raw results

EachEpoch = Callable[[RunSpec, Method, int], None]
More = Callable[[Recommender], list[dict[str, Any]]]


@dataclass(frozen=True)
class Cell:
    """A row of the comparison: a model, a method and options."""

    model: str
    method: str | None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        name = full_name(self.model, self.method)
        return name + "".join(f" {key.partition('.')[2]}={value}" for key, value in self.options)


@dataclass(frozen=True)
class Request:
    """What a comparison runs on, and how."""

    data: Dataset
    protocol: str = "corrected"
    seeds: int | tuple[int, ...] = 3  # how many, or which
    common: tuple[tuple[str, Any], ...] = ()  # options with one value, for every model or method that has them
    epochs: int | None = None
    device: str = "auto"
    watch: Callable[[Progress], None] | None = None
    say: Callable[[str], None] = print
    each_epoch: EachEpoch | None = None  # called with every stack after each epoch
    more: More | None = None  # gives further fields for the line of each run
    ks: tuple[int, ...] | None = None
    per_user: bool = True  # whether to keep the metrics of every user
    known: tuple[Path, ...] = ()  # folders with results of the same name, whose finished runs are reused
    workers: Workers = field(default_factory=Here)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the data itself: results of another file or split under the same name do not count."""
        digest = hashlib.sha256()
        for part in (self.data.train, self.data.valid, self.data.test):
            digest.update(self.data.csr(part, unique=False).keys.tobytes())
        for name, values in self.data.training_csr().columns.items():
            digest.update(name.encode() + values.tobytes())
        return digest.hexdigest()[:16]


def cells_of(models: Iterable[str], methods: Sequence[str], grid: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """All combinations. An option that a model or method does not have is left out there, and repeats are dropped."""
    cells: dict[Cell, None] = {}
    for model in [*models, *ALWAYS]:
        for method in [None] if is_solved(model) else methods:
            names = [name for name in grid if has_option(model, method, name)]
            for values in itertools.product(*(grid[name] for name in names)):
                cells[Cell(model, method, tuple(zip(names, values, strict=True)))] = None
    used = {name for cell in cells for name, _ in cell.options}
    for name in grid:
        if name not in used:
            raise InputError(f"option {name}: none of the models and methods have it; check its name.")
    return list(cells)


def has_option(model: str, method: str | None, name: str) -> bool:
    section, _, key = name.partition(".")
    if section == "model":
        own = own_class(model)
        return own is None or key in own.Config.model_fields
    if section == "protocol":
        return True
    if method is None:
        return False
    return key in (find_method(method).Config if section == "method" else TrainConfig).model_fields


@dataclass(frozen=True)
class Stack:
    """Runs that differ only in seeds and in options that may differ within a stack."""

    first: RunSpec
    names: list[str] = field(default_factory=list)  # of the cells
    members: list[tuple[int, dict[str, Any], str]] = field(
        default_factory=list
    )  # seed, own options and key of each run

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} other settings"

    def without(self, done: Iterable[str]) -> RunSpec | None:
        """The runs that are not done yet, None if all are."""
        left = [(seed, varied) for seed, varied, key in self.members if key not in done]
        update = {"seeds": tuple(seed for seed, _ in left), "varied": tuple(varied for _, varied in left)}
        return self.first.updated(**update) if left else None


@dataclass(frozen=True)
class Finished:
    """What is kept of trained runs: everything that goes into their lines of results."""

    run: RunSpec
    entries: list[dict[str, Any]]
    groups: dict[str, list[dict[str, float]]]  # metrics by group of users; empty where a group has no users
    more: list[dict[str, Any]]
    per_user: PerUser
    device: str


def compare(request: Request, cells: Sequence[Cell], results: Results) -> Results:
    """Run what is not in the results yet, stack by stack. The lines end up in the order of the cells."""
    with only_writer(results.folder):
        _run_missing(request, cells, results)
    return results


def _run_missing(request: Request, cells: Sequence[Cell], results: Results) -> None:
    stacks = _stacks(request, cells)
    waiting = [(stack, run) for stack in stacks if (run := stack.without(results.by_key()))]
    elsewhere = _elsewhere(request, results.name)
    workers, device = request.workers, request.workers.device(request.device)
    room = workers.room(device)
    jobs: list[Job] = []
    for stack, run in waiting:
        known = [elsewhere.get(key) for key in _keys(request, run)]
        if all(known):
            lines, users = zip(*(one for one in known if one is not None), strict=True)
            results.add(lines, {metric: np.stack([own[metric] for own in users]) for metric in users[0]})
            continue
        for smaller, memory in stacks_that_fit(run, request.data, room):
            runs = len(smaller.config.seeds)
            jobs.append(Job(f"{stack.name} · {runs} run(s)", smaller, runs * smaller.config.train.epochs, memory))
    work = partial(_train, KEPT if request.per_user else (), request.each_epoch, request.more)
    for _, finished in workers.each(work, request.data, jobs, device, request.watch, request.say):
        _add(request, finished, results)
    if waiting:
        results.arrange([key for stack in stacks for _, _, key in stack.members])
    results.merge_per_user()


def _train(
    kept: Sequence[str],
    each_epoch: EachEpoch | None,
    more: More | None,
    data: Dataset,
    stack: RunSpec,
    device: torch.device,
    watch: Callable[[Progress], None] | None,
    say: Callable[[str], None],
) -> Iterator[Finished]:
    """Train and evaluate, here or on another machine."""
    for run, trained in train_in_memory(data, stack, device, watch, each_epoch, say):
        evaluation = trained.evaluation
        assert evaluation is not None
        empty: list[dict[str, float]] = [{}] * trained.num_runs
        groups = {"warm": evaluation.warm, "cold": ~evaluation.warm}
        yield Finished(
            run,
            trained.metrics["runs"],
            {name: evaluation.mean(keep) if keep.any() else empty for name, keep in groups.items()},
            more(trained) if more else [{}] * trained.num_runs,
            {name: evaluation.per_user[name] for name in kept if name in evaluation.per_user},
            "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device),
        )


def _plan(request: Request, cell: Cell) -> RunSpec:
    common = {name: value for name, value in request.common if has_option(cell.model, cell.method, name)}
    options = common | dict(cell.options) | {"protocol.test_history": "train"}  # solved and learned models alike
    return plan(
        request.data,
        cell.model,
        cell.method or "normal",
        request.protocol,
        request.seeds,
        options,
        request.epochs,
        request.ks,
    )


def _stacks(request: Request, cells: Sequence[Cell]) -> list[Stack]:
    """Group the cells into stacks of runs that can be trained at once."""
    stacks: dict[str, Stack] = {}
    for cell in cells:
        run = _plan(request, cell)
        free: tuple[str, ...] = ()
        varied: dict[str, Any] = {}
        if run.kind.learns:
            free, every = run.kind.per_run, run.kind.Config(**run.config.method_options)
            varied = {
                f"method.{name}": getattr(every, name) for name in free
            }  # defaults too, or those of the first cell would apply
            varied["train.l2"] = run.config.train.l2
        fixed = run.config.model_dump(mode="json")
        fixed["method_options"] = {k: v for k, v in run.config.method_options.items() if k not in free}
        fixed["train"].pop("l2")
        stack = stacks.setdefault(json.dumps(fixed, sort_keys=True), Stack(run))
        stack.names.append(cell.name)
        keys = zip(run.config.seeds, _keys(request, run), strict=True)
        stack.members.extend((seed, varied, key) for seed, key in keys)
    return list(stacks.values())


def _elsewhere(request: Request, name: str) -> dict[str, tuple[dict[str, Any], PerUser]]:
    """The finished runs of other folders, each with the metrics of every user."""
    found: dict[str, tuple[dict[str, Any], PerUser]] = {}
    for folder in request.known:
        other = Results(folder, name)
        users = {metric: other.per_user(metric) for metric in KEPT} if request.per_user else {}
        for key, line in other.by_key().items():
            if all(key in values for values in users.values()):
                found[key] = line, {metric: values[key] for metric, values in users.items()}
    return found


def keys_of(request: Request, cell: Cell) -> list[str]:
    """The keys of a cell's runs in the results, one per seed."""
    return _keys(request, _plan(request, cell))


def _keys(request: Request, run: RunSpec) -> list[str]:
    varied = run.config.varied or ({},) * len(run.config.seeds)
    pairs = zip(run.config.seeds, varied, strict=True)
    return [run_key(_result(request, _single(run, seed, own))) for seed, own in pairs]


def _single(run: RunSpec, seed: int, varied: Mapping[str, Any] | None = None) -> RunSpec:
    """One run of a stack, with its own options in their places."""
    config = run.config
    own = dict(varied or {})
    method_options = config.method_options | {
        key.removeprefix("method."): value for key, value in own.items() if key.startswith("method.")
    }
    train = config.train.model_copy(update={"l2": own["train.l2"]} if "train.l2" in own else {})
    update = {"seeds": (seed,), "varied": (), "method_options": method_options, "train": train}
    return run.updated(**update)


def _result(request: Request, run: RunSpec) -> dict[str, Any]:
    """The fields of a line of results that identify its run."""
    config = run.config
    kind = run.kind
    own = own_class(run.model)
    settings = {} if own is None else own.Config(**config.model_options).model_dump(mode="json")
    settings = {f"model.{key}": value for key, value in (settings or config.model_options).items()}
    if kind.learns:
        options = kind.Config(**config.method_options).model_dump(mode="json")
        settings |= {f"method.{key}": value for key, value in options.items()}
        settings |= {f"train.{key}": value for key, value in config.train.model_dump(mode="json").items()}
    return {
        "dataset": request.data.name,
        "data": request.fingerprint,
        "model": config.model,
        "method": config.method or "none",
        "seed": config.seeds[0],
        "protocol": config.protocol.model_dump(mode="json"),
        "settings": settings,
    }


def _add(request: Request, finished: Finished, results: Results) -> None:
    run, lines = finished.run, []
    varied = run.config.varied or ({},) * len(run.config.seeds)
    for number, (entry, own) in enumerate(zip(finished.entries, varied, strict=True)):
        line = _result(request, _single(run, entry["seed"], own))
        line |= {"metrics": entry["metrics"], "epochs": entry["epochs"], "seconds": entry["train_seconds"]}
        line |= {"valid_ndcg@20": entry.get("valid_ndcg@20"), "device": finished.device}
        line["groups"] = {name: means[number] for name, means in finished.groups.items()}
        lines.append(_rounded(line | finished.more[number]))
    results.add(lines, finished.per_user)


def _rounded(value: Any) -> Any:
    """A result with fewer digits, except in the settings and the protocol, which identify its run."""
    if isinstance(value, dict):
        return {k: v if k in ("settings", "protocol") else _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def users_of(
    request: Request, cells: Sequence[Cell], results: Results, metric: str
) -> dict[str, npt.NDArray[np.float64]]:
    """A metric of every user for each row: [seeds, users]."""
    per_user = results.per_user(metric)
    return {cell.name: np.stack([per_user[key] for key in keys_of(request, cell)]) for cell in cells}
