"""From data, a model and a method to a trained recommender: `fit`."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import itertools
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from accord import paper
from accord.config import make_config
from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.data.load import load
from accord.data.sampling import Negatives, Sampler, TrainingPairs
from accord.data.user_shard import PartSampler, UserPart, rows_of
from accord.errors import InputError, shown, unknown
from accord.evaluation.ranking import Ranker, Relevant, evaluate, validation_part
from accord.io.files import only_writer
from accord.methods import MethodSpec, find_method, method_name
from accord.methods.base import Method
from accord.models import ModelSpec, model_name, own_class
from accord.nn.layers import generators, whole_tables
from accord.nn.ranks import Ranks
from accord.protocol import PRESETS, Protocol
from accord.random import drawn_part, random_numbers
from accord.recommender.recommender import Recommender
from accord.training import checkpoints
from accord.training.run import MOST_K, MOST_SEEDS, Run, RunConfig
from accord.training.trainer import Diverged, Progress, Stopping, TrainConfig, Trainer, TrainState

FIRST_SEED = 2019  # the paper's seeds are 2019, 2020 and 2021
SECTIONS = ("model", "method", "train", "protocol")
KS = {"electronics": (5, 10, 20, 50)}  # the paper ranks deeper there
LEAST_IN_A_BATCH, MOST_IN_A_BATCH = 64, 2048
DEFAULT_KS = (3, 5, 10, 20)


def fit(
    data: Any,
    model: ModelSpec = "gmf",
    method: MethodSpec = "deca",
    *,
    protocol: str | Protocol = "corrected",
    seeds: int | Sequence[int] = 1,
    options: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    device: str = "auto",
    ks: Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    read_seconds: float = 0.0,
    command: str | None = None,
) -> Recommender:
    """Train, evaluate and (with `out`) save a recommender.

    `data`: a `Dataset`, or anything that `accord.load` takes. `seeds`: how many, from 2019 on, or which.
    `options`: `{"method.c1": 100, "model.dim": 64, "train.l2": 0.1, "protocol.ties": "index"}`.
    `read_seconds`: what reading the data took, where the caller has done it already.
    `command`: what to type to repeat it, kept with the results.
    Runs that diverge are left out, with a warning; where none is left, that is an error.
    """
    importlib.import_module("torch._dynamo")  # torch.optim imports it at first use: a second that is no training time
    began = time.perf_counter()
    data = load(data)
    run = plan(data, model, method, protocol, seeds, options or {}, epochs, ks)
    on = find_device(device)
    seconds = {"read": read_seconds + time.perf_counter() - began}
    began = time.perf_counter()
    folder = None if out is None else Path(out)
    with only_writer(folder):
        lost = ""
        try:
            trained, states = train_stack(data, run, on, folder, resume, watch)
        except Diverged as error:
            if error.rest is None:
                raise
            (run, trained, states), lost = error.rest, str(error)
            warnings.warn(lost, stacklevel=2)
        seconds["train"] = time.perf_counter() - began
        recommender = Recommender.of_training(run, data, trained, states, seconds)
        if lost:
            recommender.metrics["diverged"] = lost
        if command is not None:
            recommender.metrics["command"] = command
        if folder is not None:
            recommender.save(folder)
    return recommender


def plan(
    data: Dataset,
    model: ModelSpec,
    method: MethodSpec,
    protocol: str | Protocol,
    seeds: int | Sequence[int],
    options: Mapping[str, Any],
    epochs: int | None,
    ks: Sequence[int] | None,
) -> Run:
    """Check everything that can be checked before a second is spent on training."""
    if not len(data.train):
        raise InputError(f"{data.name} has no training interaction; give more data or other --ratios.")
    given = _by_section(options)
    if isinstance(protocol, str):
        if protocol not in PRESETS:
            raise unknown("protocol", protocol, PRESETS)
        protocol = PRESETS[protocol]
    rules = make_config(Protocol, protocol.model_dump() | given["protocol"], "protocol")
    own = own_class(model)
    closed_form = own is not None and own.closed_form
    if own is not None:
        make_config(own.Config, given["model"], f"model {model_name(model)}")
    if closed_form and given["method"]:
        raise InputError(f"model '{model_name(model)}' is fitted in closed form and takes no method options.")
    train_options: dict[str, Any] = {}
    method_options: dict[str, Any] = {}
    if not closed_form:
        method_config = find_method(method).Config
        known = paper.settings(data.name, model_name(model), method_name(method)) if rules.settings == "paper" else None
        for key, value in (known or {}).items():
            if key in TrainConfig.model_fields:
                train_options[key] = value
            elif key in method_config.model_fields:
                method_options[key] = value
        method_options |= given["method"]
        make_config(method_config, method_options, f"method {method_name(method)}")
    train_options |= given["train"] | ({} if epochs is None else {"epochs": epochs})
    config = RunConfig(
        model=_reference(model),
        method=None if closed_form else _reference(method),
        model_options=given["model"],
        method_options=method_options,
        train=make_config(TrainConfig, train_options, "train"),
        protocol=rules,
        seeds=_seeds(seeds)[: 1 if closed_form else None],
        ks=_ks(ks, data.name),
    )
    return Run(config, model, None if closed_form else method)


def _by_section(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, value in options.items():
        section, _, name = key.partition(".")
        if section not in sections or not name:
            raise InputError(f"unknown option '{key}'; options are written {', '.join(f'{s}.NAME' for s in SECTIONS)}.")
        sections[section][name] = value
    return sections


def _reference(spec: Any) -> str:
    """The name or dotted path by which a result says what it was made with."""
    return spec if isinstance(spec, str) else f"{spec.__module__}:{spec.__qualname__}"


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if not isinstance(seeds, int):
        if not seeds or len(set(seeds)) < len(seeds):
            raise InputError(f"seeds are {list(seeds)}; give one or more different numbers.")
        return tuple(seeds)
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds is {seeds}; give a number from 1 to {MOST_SEEDS:,}.")
    return tuple(range(FIRST_SEED, FIRST_SEED + seeds))


def _ks(ks: Sequence[int] | None, dataset: str) -> tuple[int, ...]:
    if ks is None:
        return KS.get(dataset, DEFAULT_KS)
    if not ks or min(ks) < 1 or max(ks) > MOST_K:
        raise InputError(f"k is {shown(list(ks))}; give one or more numbers from 1 to {MOST_K:,}.")
    return tuple(sorted(set(ks)))


def find_device(name: str) -> torch.device:
    """The device of a name; 'auto' is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise unknown("device", name, ["auto", "cpu", "cuda"])
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for, but torch finds none here; use --device cpu.")
    return torch.device(name)


def deterministic() -> None:
    """From now on, in this process, training and ranking on CUDA give the same bits every time, and take longer.

    A CPU does so always. Call it before CUDA is used.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which cuBLAS reads when it starts
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing reads such memory


def train_stack(
    data: Dataset,
    run: Run,
    device: torch.device,
    folder: Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    each_epoch: Callable[[Method, int], None] | None = None,
    ranks: Ranks | None = None,
) -> tuple[Method, list[TrainState]]:
    """Train all runs of a stack together, stage by stage; the state of each stage comes back with the method.

    `each_epoch` sees the method, ready to score, after each epoch of the last stage. With `ranks`, what comes back has
    this rank's users alone.
    """
    if device.type == "cpu":
        ready_cpu()
    whole = train = data.csr(data.train)
    if ranks is not None:
        items = ranks.share(whole.num_items) if whole.num_items >= ranks.large else None
        train = UserPart.cut(whole, *ranks.share(whole.num_users), items)
    method = run.build(train).to(device)
    if run.method is None:
        return method.eval(), []
    if folder is not None and not resume and (ranks is None or ranks.rank == 0):
        # what an earlier training left must not come back when this one is resumed
        checkpoints.remove(checkpoints.found(folder))
    stages = [stage for stage in (method.before(), method) if stage is not None]
    states: list[TrainState] = []
    identity = _identity(run.config, whole, data.csr(validation_part(data, run.config.protocol)))
    for number, stage in enumerate(stages):
        name = f"{number + 1}/{len(stages)}"
        trainer = _trainer(data, train, run.config, stage, name, device, ranks)
        trainer.watch, trainer.identity = watch, identity
        trainer.checkpoint = None if folder is None else folder / f"checkpoint-{number + 1}.safetensors"
        if each_epoch is not None and stage is method:
            trainer.each_epoch = partial(each_epoch, method)
        if resume and folder is not None:
            trainer.resume()
        states.append(trainer.train())
    lost = {row % len(run.config.seeds) for state in states for row in state.diverged}
    if lost:
        raise _diverged(run, train, method, states, lost, ranks is None)
    return method.eval(), states


def _diverged(
    run: Run, train: Csr, method: Method, states: Sequence[TrainState], lost: set[int], whole: bool
) -> Diverged:
    """The error that some runs of a stack have diverged, with a stack of the others."""
    config, runs = run.config, len(run.config.seeds)
    seeds = ", ".join(str(config.seeds[number]) for number in sorted(lost))
    error = Diverged(
        f"training diverged with seed {seeds} of {config.model} + {config.method}: loss or weights are no numbers any "
        "more, so that is left out; try a smaller train.lr, method.c1 or method.c2."
    )
    keep = [number for number in range(runs) if number not in lost]
    if keep and whole:
        update = {
            name: tuple(getattr(config, name)[n] for n in keep) for name in ("seeds", "varied") if getattr(config, name)
        }
        rest = Run(config.model_copy(update=update), run.model, run.method)
        rows = [member * runs + n for member in range(len(method.target.seeds) // runs) for n in keep]
        made = rest.build(train)
        made.load_state_dict({name: tensor[rows].cpu() for name, tensor in method.state_dict().items()})
        device = next(iter(method.state_dict().values())).device
        error.rest = rest, made.to(device).eval(), [state.of(rows) for state in states]
    return error


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # in malloc.h


def ready_cpu() -> None:
    """Two settings of the process that training on a CPU gains a third from."""
    torch.set_flush_denormal(True)  # weights that only decay become denormal numbers, which are slow
    with contextlib.suppress(OSError, AttributeError):  # glibc alone: keep freed memory, or each step faults it in anew
        malloc_options = ctypes.CDLL(None).mallopt
        malloc_options(TRIM_THRESHOLD, 2**30)
        malloc_options(MMAP_THRESHOLD, 2**26)  # less than a block of scores, which would leave holes that nothing fits


def _identity(config: RunConfig, train: Csr, valid: Csr) -> str:
    """What a checkpoint is of: the config, apart from how long it trains and what is reported, and the data."""
    said = config.model_dump_json(exclude={"train": {"epochs", "checkpoint_seconds"}, "ks": True})
    digest = hashlib.sha256()
    for keys in itertools.chain(train.key_parts(), valid.key_parts()):
        digest.update(keys.tobytes())
    return f"{said} {digest.hexdigest()}"


def _trainer(
    data: Dataset, train: Csr, config: RunConfig, stage: Method, name: str, device: torch.device,
    ranks: Ranks | None = None,
) -> Trainer:  # fmt: skip
    """`train`: with `ranks`, a `UserPart`."""
    rules, settings = config.protocol, config.train
    last = name.split("/")[0] == name.split("/")[1]
    pairs = TrainingPairs.of(train, device)
    seeds = stage.target.seeds
    ptr = train.whole_ptr if isinstance(train, UserPart) else train.ptr
    size = int(ptr[-1]) if stage.target.batching == "pairs" else int((np.diff(ptr) > 0).sum())
    kind = partial(PartSampler, train) if isinstance(train, UserPart) else Sampler
    sampler = kind(
        pairs,
        generators(seeds, f"sampling {name}", device),
        settings.batch_size or min(MOST_IN_A_BATCH, max(LEAST_IN_A_BATCH, size // 40)),
        negatives=stage.negatives or rules.negatives,
        batching=stage.target.batching,
        user_negatives=rules.cdae_negatives,
    )
    stops = settings.early_stop if last else settings.pretrain_early_stop
    stopping = None
    if stops and len(validation_part(data, rules)):
        make = _ndcg_stopping if rules.early_stop == "best-ndcg" else _loss_stopping
        stopping = make(data, train, config, stage, pairs, sampler.num_batches, device, ranks)
    own = [options.get("l2", settings.l2) for options in config.own_options("train")]
    l2 = torch.tensor(own * (len(seeds) // len(own)), device=device)
    return Trainer(stage, sampler, settings, l2, stopping, name, ranks=ranks)


def _ndcg_stopping(
    data: Dataset, train: Csr, config: RunConfig, stage: Method, pairs: TrainingPairs, epoch: int, device: torch.device,
    ranks: Ranks | None,
) -> Stopping | None:  # fmt: skip
    """Validation NDCG@20 after every epoch."""
    relevant = Relevant.of_validation(data, config.protocol)
    everybody = len(relevant.users)
    if not everybody:
        return None
    if isinstance(train, UserPart):
        relevant = relevant.of_users(train.first, train.num_users)
    ranker = Ranker.of(
        stage.target, stage.target.score_all, len(stage.target.seeds), relevant.seen, train, config.protocol, device
    )

    def check() -> Tensor:
        with whole_tables(stage.target):
            if ranks is not None:
                stage.target.ready_to_score()
            found = evaluate(ranker, relevant, [20]).per_user["ndcg@20"]
        if ranks is None:
            return torch.from_numpy(found.mean(1))
        total = torch.from_numpy(found.sum(1))
        ranks.sum({"validation": total})
        return total / everybody

    return Stopping("best-ndcg", check, every=epoch, offset=epoch, patience=config.train.patience)


def _loss_stopping(
    data: Dataset, train: Csr, config: RunConfig, stage: Method, pairs: TrainingPairs, epoch: int, device: torch.device,
    ranks: Ranks | None,
) -> Stopping | None:  # fmt: skip
    """Validation BCE with fresh negatives, as the released code has it: every 500 steps, first after 501."""
    valid = data.csr(validation_part(data, config.protocol))
    whole, begin = len(valid.items), 0
    if isinstance(train, UserPart):
        begin = int(valid.ptr[train.first])
        valid = rows_of(valid, train.first, train.num_users)
    users, items = (torch.from_numpy(part).to(device) for part in (valid.users, valid.items))
    negatives = Negatives(pairs)
    streams = generators(stage.target.seeds, f"validation of {stage.name}", device)

    def check() -> Tensor:
        span = whole, begin, begin + len(users)
        numbers = [drawn_part(partial(random_numbers, stream=stream), *span) for stream in streams]
        drawn = negatives.at(users, torch.stack(numbers))
        everybody = users.expand(len(streams), -1)
        positive = F.softplus(-stage.target(everybody, items.expand(len(streams), -1)))
        negative = F.softplus(stage.target(everybody, drawn))
        if ranks is None:
            return positive.mean(1) + negative.mean(1)
        total = positive.sum(1) + negative.sum(1)
        ranks.sum({"validation": total})
        return total / whole

    return Stopping("loss-rise", check, every=500, offset=501, patience=2, streams=streams)
