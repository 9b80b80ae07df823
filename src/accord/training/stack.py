"""Trains all runs of a stack together, stage by stage: what a method asks for in `stages` is done here."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.columns import BATCHED
from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.data.sampling import Negatives, Sampler, TrainingPairs
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.methods.labels import note
from accord.models.base import Model
from accord.protocol import Protocol
from accord.random import generators, random_numbers
from accord.training import checkpoints
from accord.training.run import RunSpec, in_a_batch
from accord.training.trainer import STEADIER, Diverged, Progress, Stopping, Trainer, TrainState


def train_stack(
    data: Dataset,
    run: RunSpec,
    device: torch.device,
    *,
    folder: Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    each_epoch: Callable[[Method, int], None] | None = None,
    columns: Mapping[str, npt.NDArray[np.float64]] | None = None,
) -> tuple[Method, list[TrainState]]:
    """The trained method of a run, and the state in which each of its stages ended.
    Checkpoints go to `folder`, and `resume` continues from there. `each_epoch` sees the method, ready to score, after
    each epoch of the last stage.
    `columns`: more of what is known of each training interaction, in the order of the matrix."""
    if device.type == "cpu":
        ready_cpu()
    train = data.training_csr(run.columns)
    train = replace(train, columns={**train.columns, **columns}) if columns else train
    method = run.build(train)
    method.target.begin(train)
    method.to(device)
    method.notes = [*method.notes, *note(train, method.learns, method.target.name)]
    if folder is not None and not resume:
        # what an earlier training left must not come back when this one is resumed
        checkpoints.remove(folder)
    context = StackTraining(data, run, train, method, device, folder, resume, watch, each_epoch)
    method.stages(context)
    lost = {row % len(run.config.seeds) for state in context.states for row in state.diverged}
    if lost:
        raise _diverged(run, train, method, context.states, lost)
    return method.to(device).eval(), context.states


class StackTraining:
    """The training of a batch of runs: the `TrainingContext` that `Method.stages` is given."""

    def __init__(
        self, data: Dataset, run: RunSpec, train: Csr, method: Method, device: torch.device, folder: Path | None = None,
        resume: bool = False, watch: Callable[[Progress], None] | None = None,
        each_epoch: Callable[[Method, int], None] | None = None,
    ) -> None:  # fmt: skip
        self.data, self.run, self.train_pairs, self.method, self.device = data, run, train, method, device
        self.folder, self.resume, self.watch, self.each_epoch = folder, resume, watch, each_epoch
        self.states: list[TrainState] = []

    def train(self, stage: Method) -> None:
        trainer = self.trainer(stage)
        if self.resume and self.folder is not None:
            trainer.resume()
        self.states.append(trainer.train())

    def solve(self, model: Model) -> None:
        def on_progress(share: float) -> None:
            if self.watch is not None:
                self.watch(Progress(model.name, round(100 * share), 100, unit="%"))

        on_progress(0)  # whether or not the model itself reports
        model.on_progress = on_progress
        model.fit(self.train_pairs, self.train_pairs.columns.get("weight"))
        model.on_progress = None
        on_progress(1)
        model.to(self.device)

    @property
    def validation_pairs(self) -> Csr:
        return self.data.csr(validation_part(self.data, self.run.config.protocol))

    def set_column(self, name: str, values: npt.NDArray[np.float64]) -> None:
        if len(values) != len(self.train_pairs.items):
            raise InputError(
                f"column '{name}' has {len(values)} values for {len(self.train_pairs.items)} training interactions."
            )
        columns = {**self.train_pairs.columns, name: np.asarray(values)}
        self.train_pairs = replace(self.train_pairs, columns=columns)

    def trainer(self, stage: Method) -> Trainer:
        number, last = len(self.states) + 1, stage is self.method
        name = f"{number}/{self.method.num_stages}"
        config, train, device = self.run.config, self.train_pairs, self.device
        rules, settings, seeds = config.protocol, config.train, stage.target.seeds
        pairs = TrainingPairs.of(train, device, (*BATCHED, *stage.columns))
        batching = stage.batching or stage.target.batching
        size = len(train.items) if batching == "pairs" else int((train.counts > 0).sum())
        sampler = Sampler(
            pairs,
            generators(seeds, f"sampling {name}", device),
            in_a_batch(settings, size),
            negatives=stage.negatives or rules.negatives,
            batching=batching,
            user_negatives=stage.rules.user_negatives,
        )
        stops = settings.early_stop if last else settings.pretrain_early_stop
        penalties = [options.get("l2", settings.l2) for options in config.own_options("train")]
        return Trainer(
            stage,
            sampler,
            settings,
            torch.tensor(penalties * (len(seeds) // len(penalties)), device=device),
            self._stopping(stage, pairs, sampler.num_batches) if stops else None,
            name,
            watch=self.watch,
            each_epoch=partial(self.each_epoch, stage) if self.each_epoch is not None and last else None,
            checkpoint=None if self.folder is None else self.folder / f"checkpoint-{number}.safetensors",
            identity=self.identity,
            decoupled=rules.optimiser == "decoupled",
        )

    @cached_property
    def identity(self) -> str:
        return identity_of(self.data, self.run)

    def _stopping(self, stage: Method, pairs: TrainingPairs, steps: int) -> Stopping | None:
        rules, data = self.run.config.protocol, self.data
        if not len(validation_part(data, rules)):
            return None
        if rules.early_stop == "loss-rise":
            return by_loss(data, rules, stage, pairs, self.device)
        patience = self.run.config.train.patience
        return by_ndcg(data, self.train_pairs, rules, stage, steps, patience, self.device)


def identity_of(data: Dataset, run: RunSpec) -> str:
    """What a checkpoint is of: the config, apart from how long it trains and what is reported, and the data."""
    config = run.config
    settings = config.model_dump_json(exclude={"train": {"epochs", "checkpoint_seconds"}, "ks": True})
    train, valid = data.training_csr(run.columns), data.csr(validation_part(data, config.protocol), columns=("label",))
    digest = hashlib.sha256()
    for keys in itertools.chain(train.key_parts(), valid.key_parts()):
        digest.update(keys.tobytes())
    for name, values in (*sorted(train.columns.items()), *valid.columns.items()):
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return f"{settings} {digest.hexdigest()}"


def _diverged(run: RunSpec, train: Csr, method: Method, states: Sequence[TrainState], lost: set[int]) -> Diverged:
    """The error that some runs of a stack have diverged, with a stack of the others."""
    config, runs = run.config, len(run.config.seeds)
    seeds = ", ".join(str(config.seeds[number]) for number in sorted(lost))
    error = Diverged(
        f"training diverged with seed {seeds} of {config.model} + {config.method}: loss or weights became NaN or "
        f"infinite, so that run is left out; {STEADIER}."
    )
    keep = [number for number in range(runs) if number not in lost]
    if keep:
        rest_of = {
            name: tuple(getattr(config, name)[n] for n in keep) for name in ("seeds", "varied") if getattr(config, name)
        }
        rest = run.updated(**rest_of)
        rows = [member * runs + n for member in range(len(method.target.seeds) // runs) for n in keep]
        made = rest.build(train)
        made.notes = method.notes
        made.load_state_dict({name: tensor[rows].cpu() for name, tensor in method.state_dict().items()})
        device = next(iter(method.state_dict().values())).device
        error.rest = rest, made.to(device).eval(), [state.of(rows) for state in states]
    return error


def by_ndcg(
    data: Dataset, train: Csr, rules: Protocol, stage: Method, steps: int, patience: int, device: torch.device
) -> Stopping | None:
    """Validation NDCG@20 after every epoch of so many steps."""
    relevant = Relevant.of_validation(data, rules)
    if not len(relevant.users):
        return None
    runs = len(stage.target.seeds)
    ranker = Ranker.of(stage.target, stage.target.score_all, runs, relevant.seen, train, rules, device)

    def check() -> Tensor:
        return torch.from_numpy(evaluate(ranker, relevant, [20]).per_user["ndcg@20"].mean(1))

    return Stopping("best-ndcg", check, every=steps, offset=steps, patience=patience)


def by_loss(data: Dataset, rules: Protocol, stage: Method, pairs: TrainingPairs, device: torch.device) -> Stopping:
    """Validation BCE with fresh negatives, as the released code has it: every 500 steps, first after 501."""
    valid = data.csr(validation_part(data, rules))
    users, items = (torch.from_numpy(part).to(device) for part in (valid.users, valid.items))
    negatives = Negatives(pairs)
    streams = generators(stage.target.seeds, f"validation of {stage.name}", device)

    def check() -> Tensor:
        drawn = negatives.at(users, torch.stack([random_numbers(len(users), stream) for stream in streams]))
        owners = users.expand(len(streams), -1)
        positive = F.softplus(-stage.target(owners, items.expand(len(streams), -1)))
        negative = F.softplus(stage.target(owners, drawn))
        return positive.sum(1) / len(users) + negative.sum(1) / len(users)

    return Stopping("loss-rise", check, every=500, offset=501, patience=2, streams=streams)


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # in malloc.h


def ready_cpu() -> None:
    """Two settings of the process that training on a CPU gains a third from."""
    torch.set_flush_denormal(True)  # weights that only decay become denormal numbers, which are slow
    with contextlib.suppress(OSError, AttributeError):  # glibc alone: keep freed memory, or each step faults it in anew
        malloc_options = ctypes.CDLL(None).mallopt
        malloc_options(TRIM_THRESHOLD, 2**30)
        malloc_options(MMAP_THRESHOLD, 2**26)  # less than a block of scores, which would leave holes that nothing fits
