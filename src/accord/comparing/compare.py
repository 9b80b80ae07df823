"""Comparisons: a grid of models, methods and options with several seeds, trained in batches of runs where possible."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accord.comparing.executor import Here, Job, Say, Workers
from accord.comparing.results import PerUser, Results, run_key
from accord.config import full_name
from accord.consensus.training import Trained, train_run
from accord.data.csr import Floats
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.io.files import only_writer
from accord.methods import find_method
from accord.methods.base import Method
from accord.models import class_of, is_solved
from accord.models.base import Shape
from accord.recommender.recommender import Recommender
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.trainer import Diverged, TrainConfig, Watch

PER_USER = ("recall@20", "ndcg@20")  # metrics saved for every user, for the paired tests
ALWAYS = ("popularity", "ease")  # part of every comparison
DIGITS = 8  # of a figure in the raw results
MOST_RUNS = 256  # in one batch

Line = dict[str, Any]
EachEpoch = Callable[[RunSpec, Method, int], None]
More = Callable[[Recommender], list[Line]]


@dataclass(frozen=True)
class Cell:
    model: str
    method: str | None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        name = full_name(self.model, self.method)
        return name + "".join(f" {key.partition('.')[2]}={value}" for key, value in self.options)


@dataclass(frozen=True)
class Request:
    data: Dataset
    protocol: str = "corrected"
    seeds: int | tuple[int, ...] = 3  # how many, or which
    common: tuple[tuple[str, Any], ...] = ()  # options with one value, for every model or method that has them
    epochs: int | None = None
    device: str = "auto"
    watch: Watch = None
    say: Say = print
    each_epoch: EachEpoch | None = None  # called with every batch of runs after each epoch
    more: More | None = None  # gives further fields for the line of each run
    ks: tuple[int, ...] | None = None
    per_user: bool = True  # whether to save the metrics of every user
    reuse: tuple[Path, ...] = ()  # folders with results of the same name, whose finished runs count
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
            raise InputError(f"option {name}: no model or method here has it; check its name.")
    return list(cells)


def has_option(model: str, method: str | None, name: str) -> bool:
    section, _, key = name.partition(".")
    if section == "model":
        kind = class_of(model)
        return kind is None or key in kind.Config.model_fields
    if section == "protocol":
        return True
    if method is None:
        return False
    return key in (find_method(method).Config if section == "method" else TrainConfig).model_fields


@dataclass(frozen=True)
class Stack:
    """Runs that can be trained at once: they differ only in seeds and in options that a batch of runs may vary."""

    first: RunSpec
    names: list[str] = field(default_factory=list)  # of the cells
    runs: dict[str, tuple[int, Line]] = field(default_factory=dict)  # the seed and the varied options of each, by key

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} other settings"

    def without(self, done: Iterable[str]) -> RunSpec | None:
        """The runs that are not done yet, None if all are."""
        left = [self.runs[key] for key in self.runs if key not in done]
        seeds, varied = zip(*left, strict=True) if left else ((), ())
        return self.first.updated(seeds=seeds, varied=varied) if left else None


def compare(request: Request, cells: Sequence[Cell], results: Results) -> Results:
    """Run what is not in the results yet. The lines end up in the order of the cells."""
    with only_writer(results.folder):
        _run_missing(request, cells, results)
    return results


def _run_missing(request: Request, cells: Sequence[Cell], results: Results) -> None:
    stacks, done = _stacks(request, cells), results.by_key()
    waiting = [(stack, run) for stack in stacks if (run := stack.without(done))]
    reusable = _reusable(request, results.name)
    workers, device = request.workers, request.workers.device(request.device)
    room = workers.room(device)
    jobs: list[Job] = []
    for stack, run in waiting:
        keys = [run_key(identity) for identity in _identities(request, run)]
        if reusable.keys() >= {*keys}:
            lines, users = zip(*(reusable[key] for key in keys), strict=True)
            results.add(lines, {metric: np.stack([values[metric] for values in users]) for metric in users[0]})
            continue
        each = bytes_of_a_run(run, request.data)
        most = max(1, min(MOST_RUNS, room // each))
        for start in range(0, len(run.config.seeds), most):
            part = slice(start, start + most)
            smaller = run.updated(seeds=run.config.seeds[part], varied=run.config.varied[part])
            runs = len(smaller.config.seeds)
            jobs.append(Job(f"{stack.name} · {runs} run(s)", smaller, each * runs))
    work = partial(_train, PER_USER if request.per_user else (), request.each_epoch, request.more)
    for _, (run, measured, per_user) in workers.each(work, request.data, jobs, device, request.watch, request.say):
        identities = _identities(request, run)
        texts = map(json.dumps, measured)
        rounded = [json.loads(text, parse_float=lambda number: round(float(number), DIGITS)) for text in texts]
        results.add([who | line for who, line in zip(identities, rounded, strict=True)], per_user)
    if waiting:
        results.arrange([key for stack in stacks for key in stack.runs])
    results.merge_per_user()


def _train(
    metrics: Sequence[str], each_epoch: EachEpoch | None, more: More | None,
    data: Dataset, stack: RunSpec, device: torch.device, watch: Watch, say: Say,
) -> Iterator[tuple[RunSpec, list[Line], PerUser]]:  # fmt: skip
    """Train and evaluate, here or on another machine: what was measured of each run, and of its users."""
    seen = None if each_epoch is None else partial(each_epoch, stack)
    try:
        result = train_run(data, stack, device, watch=watch, each_epoch=seen)
    except Diverged as error:
        warnings.warn(f"{stack.config.model} + {stack.config.method}: {error}", stacklevel=2)
        if error.rest is None:
            return
        stack, method, states = error.rest
        result = Trained(stack, method, states, method.notes)
    trained = Recommender.of_training(result, data)
    evaluation = trained.evaluation
    assert evaluation is not None
    empty: list[dict[str, float]] = [{}] * trained.num_runs
    masks = {"warm": evaluation.warm, "cold": ~evaluation.warm}
    groups = {group: evaluation.mean(mask) if mask.any() else empty for group, mask in masks.items()}
    further = more(trained) if more else [{}] * trained.num_runs
    name = "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)
    lines = [
        {"metrics": entry["metrics"], "epochs": entry["epochs"], "seconds": entry["train_seconds"]}
        | {"valid_ndcg@20": entry.get("valid_ndcg@20"), "device": name}
        | {"groups": {group: means[number] for group, means in groups.items()}}
        | further[number]
        for number, entry in enumerate(trained.metrics["runs"])
    ]
    yield stack, lines, {name: evaluation.per_user[name] for name in metrics if name in evaluation.per_user}


def bytes_of_a_run(run: RunSpec, data: Dataset) -> int:
    """A careful guess: weights with gradients, moments, the best weights and intermediate results, and a batch."""
    one = run.with_seeds(run.config.seeds[:1]).build(data.training_csr(run.columns))
    if one.target.solved:
        return one.target.cost(one.target.config, Shape.of(data.training_csr())).memory
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in one.state_dict().values())
    batch = run.config.train.batch_size or 2048
    pairs = 2 * batch
    if one.target.batching == "users":  # a batch holds the whole histories of its users
        pairs = 2 * math.ceil(len(data.train) * min(1, batch / max(1, data.counts()["users"])))
    return 12 * weights + 16 * 64 * 4 * pairs


def _plan(request: Request, cell: Cell) -> RunSpec:
    common = {name: value for name, value in request.common if has_option(cell.model, cell.method, name)}
    options = common | dict(cell.options) | {"protocol.test_history": "train"}  # solved and learned models alike
    method, seeds = cell.method or "normal", request.seeds
    return plan(request.data, cell.model, method, request.protocol, seeds, options, request.epochs, request.ks)


def _stacks(request: Request, cells: Sequence[Cell]) -> list[Stack]:
    """The runs of the cells, grouped into those that can be trained at once."""
    stacks: dict[str, Stack] = {}
    for cell in cells:
        run = _plan(request, cell)
        free: tuple[str, ...] = ()
        varied: Line = {}
        if run.kind.learns:
            free, config = run.kind.per_run, run.kind.Config(**run.config.method_options)
            # defaults too, or those of the first cell would apply
            varied = {f"method.{name}": getattr(config, name) for name in free}
            varied["train.l2"] = run.config.train.l2
        fixed = run.config.model_dump(mode="json")
        fixed["method_options"] = {k: v for k, v in run.config.method_options.items() if k not in free}
        fixed["train"].pop("l2")
        stack = stacks.setdefault(json.dumps(fixed, sort_keys=True), Stack(run))
        stack.names.append(cell.name)
        for identity in _identities(request, run):
            stack.runs[run_key(identity)] = identity["seed"], varied
    return list(stacks.values())


def _reusable(request: Request, name: str) -> dict[str, tuple[Line, PerUser]]:
    """The finished runs of other folders, each with the metrics of every user."""
    runs: dict[str, tuple[Line, PerUser]] = {}
    for folder in request.reuse:
        other = Results(folder, name)
        users = {metric: other.per_user(metric) for metric in PER_USER} if request.per_user else {}
        for key, line in other.by_key().items():
            if all(key in values for values in users.values()):
                runs[key] = line, {metric: values[key] for metric, values in users.items()}
    return runs


def keys_of(request: Request, cell: Cell) -> list[str]:
    """The keys of a cell's runs in the results, one per seed."""
    return [run_key(identity) for identity in _identities(request, _plan(request, cell))]


def _identities(request: Request, run: RunSpec) -> list[Line]:
    """The fields of a line of results that identify its run, of each run."""
    config, kind, model = run.config, run.kind, class_of(run.model)
    options = {} if model is None else model.Config(**config.model_options).model_dump(mode="json")
    settings = {f"model.{key}": value for key, value in (options or config.model_options).items()}
    identities = []
    own_options = config.own_options("method"), config.own_options("train")
    for seed, method, train in zip(config.seeds, *own_options, strict=True):
        each = dict(settings)
        if kind.learns:
            options = kind.Config(**config.method_options | method).model_dump(mode="json")
            trained = config.train.model_copy(update=train).model_dump(mode="json")
            each |= {f"method.{key}": value for key, value in options.items()}
            each |= {f"train.{key}": value for key, value in trained.items()}
        protocol = config.protocol.model_dump(mode="json")
        identities.append(
            {"dataset": request.data.name, "data": request.fingerprint}
            | {"model": config.model, "method": config.method or "none", "seed": seed}
            | {"protocol": protocol, "settings": each}
        )
    return identities


def users_of(request: Request, cells: Sequence[Cell], results: Results, metric: str) -> dict[str, Floats]:
    """A metric of every user for each row: [seeds, users]."""
    per_user = results.per_user(metric)
    return {cell.name: np.stack([per_user[key] for key in keys_of(request, cell)]) for cell in cells}
