"""The only training loop. It knows no model and no method: it steps a loss, checks, keeps and resumes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from torch import Tensor

from accord.data.sampling import Sampler
from accord.errors import Argument, InputError
from accord.io.tensors import not_finite, write_tensors
from accord.nn.adam import Adam
from accord.nn.layers import Streams, Trainable, tables_by_rows
from accord.training import checkpoints
from accord.training.step import Steps, Threads


class TrainConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int = Field(100, ge=1, description="passes over the training pairs, at most")
    batch_size: int | None = Field(
        None, ge=1, description="positives a batch (users, for cdae and softmax); 2048, or a fortieth of a smaller log"
    )
    lr: float = Field(0.003, gt=0, description="learning rate of Adam")
    l2: float = Field(0.01, ge=0, description="penalty l2 / 2 * sum(theta^2) / users on the target model")
    early_stop: bool = Field(True, description="stop when validation gets no better")
    patience: int = Field(10, ge=1, description="checks without a new best before stopping (best-ndcg)")
    checkpoint_seconds: float = Field(
        10.0, ge=0, description="seconds between checkpoints, at least; written at the end of an epoch"
    )
    pretrain_early_stop: bool = Field(
        True, description="early_stop of what is trained before, such as the partner of DeCA(p)"
    )


STEADIER = "try a smaller train.lr, or smaller weights of the terms of the loss where the method has such options"


class Diverged(InputError):
    """Runs whose loss or weights became NaN or infinite. `rest`: the others of their stack, where there are any."""

    rest: Any = None


OF_BUDGET = "% of the budget"  # the unit of a search


@dataclass
class Progress:
    """What the loop tells whoever watches, after each epoch and check.

    >>> progress = accord.Progress("1/1", epoch=3, epochs=10, step=120, loss=0.5, steps_per_second=80.0, value=None)
    >>> f"{progress.epoch} of {progress.epochs} {progress.unit}"
    '3 of 10 epochs'
    """

    stage: str
    epoch: int
    epochs: int
    step: int = 0
    loss: float = math.nan
    steps_per_second: float = 0.0
    value: float | None = None  # of the last check, mean over runs
    unit: str = "epochs"  # what is counted; a model that is solved takes no steps
    plan: str | None = None  # of a search, once: what it tries, and about how long that takes


Watch = Callable[[Progress], None] | None  # is called as it goes


@dataclass
class TrainState:
    """Everything besides weights and optimiser that a resumed run needs."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    value: list[float] = field(default_factory=list)  # last check of each run
    best: list[float] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)  # checks without a new best, or rises
    stopped_at: list[int] = field(default_factory=list)  # epochs trained when stopped; 0: still running
    diverged: list[int] = field(default_factory=list)  # runs that are out; they have stopped, too
    history: list[dict[str, Any]] = field(default_factory=list)

    def best_epoch(self) -> int:
        """The epoch with the best check, mean over runs, where one is made after each."""
        epochs = [(stopped or self.epoch) - bad for stopped, bad in zip(self.stopped_at, self.bad, strict=True)]
        return max(1, round(sum(epochs) / len(epochs)))

    def of(self, runs: Sequence[int]) -> TrainState:
        """The state of some of the runs, none of which has diverged."""
        value, best = ([each[run] for run in runs] for each in (self.value, self.best))
        bad, stopped_at = ([each[run] for run in runs] for each in (self.bad, self.stopped_at))
        history = [
            {key: [entry[key][run] for run in runs] if key in ("loss", "valid") else entry[key] for key in entry}
            for entry in self.history
        ]
        return TrainState(self.epoch, self.step, self.seconds, value, best, bad, stopped_at, [], history)


@dataclass
class Stopping:
    """When to check and when to stop. `check` gives a value for each run.
    best-ndcg: higher is better, stop after `patience` checks without a new best, keep the best weights.
    loss-rise: lower is better, stop at the second rise over the value before (not the best), keep the last weights."""

    rule: Literal["best-ndcg", "loss-rise"]
    check: Callable[[], Tensor]  # -> [R]
    every: int  # steps
    offset: int  # the first check is after `offset` steps
    patience: int
    streams: list[torch.Generator] = field(default_factory=list)  # what the check draws from

    def due(self, steps_done: int) -> bool:
        return steps_done >= self.offset and (steps_done - self.offset) % self.every == 0


class Trainer:
    def __init__(
        self,
        method: Trainable,
        sampler: Sampler,
        config: TrainConfig,
        l2: Tensor,
        stopping: Stopping | None,
        stage: str,
        *,
        watch: Watch = None,
        each_epoch: Callable[[int], None] | None = None,
        checkpoint: Path | None = None,
        identity: str = "",
        decoupled: bool = False,
    ) -> None:
        """`l2` [R] is of the penalty, in the gradient or decoupled (see `Adam`). `each_epoch` is called with the epoch,
        the method ready to score. `identity` says what is trained: a checkpoint of anything else is refused."""
        self.method, self.sampler, self.config, self.l2 = method, sampler, config, l2
        self.stopping, self.stage, self.watch, self.each_epoch = stopping, stage, watch, each_epoch
        self.checkpoint, self.identity = checkpoint, identity
        self.parameters = dict(method.named_parameters())
        pairs = 2 * -(-len(sampler.pairs) // sampler.num_batches)
        by_rows = tables_by_rows(method, pairs) if decoupled else []
        self.optimizer = Adam(self.parameters.values(), config.lr, by_rows, decoupled)
        self.steps = Steps(method, self.optimizer, l2)
        self.threads = Threads(l2.device)
        self.best_weights: dict[str, Tensor] = {}  # weights to give back, run by run
        runs = len(l2)
        self.state = TrainState(
            value=[float("nan")] * runs,
            best=[-float("inf")] * runs if stopping and stopping.rule == "best-ndcg" else [float("inf")] * runs,
            bad=[0] * runs,
            stopped_at=[0] * runs,
        )

    def train(self) -> TrainState:
        """Run to the end, from wherever `resume` left off. Afterwards the method holds the weights to keep."""
        state = self.state
        saved_at = time.perf_counter()
        self.optimizer.start()
        with self.steps.apart():
            while state.epoch < self.config.epochs and not all(state.stopped_at):
                self._epoch()
                late = time.perf_counter() - saved_at > self.config.checkpoint_seconds
                if self.checkpoint and late:
                    self.save()
                    saved_at = time.perf_counter()
            self.optimizer.release()
            self._restore_best()
        if self.checkpoint:
            self.save()
        return state

    def _epoch(self) -> None:
        state, began = self.state, time.perf_counter()
        steps = 0
        self.steps.total.zero_()
        self.steps.ending = 0 < state.epoch == self.config.epochs - 1
        self.method.begin_epoch(state.epoch)
        self.method.train()
        for batch in self.sampler.epoch():
            with self.threads.step():
                self.steps.take(batch, state.step)
            state.step += 1
            steps += 1
            if self.stopping and self.stopping.due(state.step):
                self._check(self.stopping)
                if all(state.stopped_at):
                    break
        self.optimizer.settle()
        state.epoch += 1
        loss = self.steps.total / max(1, steps)
        self._leave_out_diverged(loss)
        seconds = time.perf_counter() - began
        state.seconds += seconds
        value = sum(state.value) / len(state.value)
        self._record(loss, value)
        if self.each_epoch:
            self.method.eval()
            self.each_epoch(state.epoch)
        if self.watch:
            checked = value if value == value else None
            speed = steps / seconds
            epochs = self.config.epochs
            self.watch(Progress(self.stage, state.epoch, epochs, state.step, float(loss.mean()), speed, checked))

    def _leave_out_diverged(self, loss: Tensor) -> None:
        """Stop runs that have diverged; where no run is left, it ends here, before a good checkpoint is replaced."""
        state = self.state
        sums = [parameter.detach().flatten(1).sum(1) for parameter in self.parameters.values()]
        bad = ~torch.isfinite(torch.stack([loss, *sums])).all(0)
        for run in bad.nonzero().flatten().tolist():
            if not state.stopped_at[run]:  # the weights of a stopped run are stored already
                state.stopped_at[run] = state.epoch
                state.diverged.append(run)
        if len(state.diverged) == len(loss):
            folder = self.checkpoint and self.checkpoint.parent
            saved = folder is not None and checkpoints.in_folder(folder)
            rescue = f"the last good checkpoint is in {folder}; " if saved else ""
            raise Diverged(
                f"training diverged in epoch {state.epoch}: loss or weights became NaN or infinite; {rescue}{STEADIER}."
            )

    def _record(self, loss: Tensor, value: float) -> None:
        entry: dict[str, Any] = {"stage": self.stage, "epoch": self.state.epoch, "step": self.state.step}
        entry["loss"] = [round(x, 6) if math.isfinite(x) else None for x in loss.tolist()]
        if value == value:
            entry["valid"] = [round(x, 6) for x in self.state.value]
        entry["seconds"] = round(self.state.seconds, 3)
        self.state.history.append(entry)

    def _check(self, stopping: Stopping) -> None:
        state = self.state
        self.optimizer.settle()
        self.method.eval()
        with torch.no_grad():
            values = stopping.check().tolist()
        self.method.train()
        for run in (run for run, stopped in enumerate(state.stopped_at) if not stopped):
            if stopping.rule == "best-ndcg":
                if values[run] > state.best[run]:
                    state.best[run], state.bad[run] = values[run], 0
                    self._keep(run)
                else:
                    state.bad[run] += 1
            else:
                state.bad[run] += values[run] > state.best[run]  # here the value before, not the best
                state.best[run] = values[run]
            state.value[run] = values[run]
            if state.bad[run] >= stopping.patience:
                state.stopped_at[run] = state.epoch + 1
                if stopping.rule == "loss-rise":
                    self._keep(run)

    def _keep(self, run: int) -> None:
        """Remember a run's weights: they are given back at the end, whatever its neighbours still train."""
        weights = self.method.state_dict()
        if not self.best_weights:
            self.best_weights = {name: tensor.clone() for name, tensor in weights.items()}
        for name, tensor in weights.items():
            self.best_weights[name][run] = tensor[run]

    def _restore_best(self) -> None:
        if not self.best_weights:
            return
        stopping, state = self.stopping, self.state
        by_best = stopping is not None and stopping.rule == "best-ndcg"
        runs = [run for run, stopped in enumerate(state.stopped_at) if by_best or stopped]
        with torch.no_grad():
            for name, tensor in self.method.state_dict().items():
                tensor[runs] = self.best_weights[name][runs]

    def _streams(self) -> dict[str, torch.Generator]:
        drawing = zip(self.sampler.drawing, self.sampler.streams, strict=True)
        named = {f"sampler/{run}": stream for run, stream in drawing}
        if self.stopping:
            named |= {f"check/{run}": stream for run, stream in enumerate(self.stopping.streams)}
        for name, module in self.method.named_modules():
            if isinstance(module, Streams):
                named |= {f"{name}/{run}": stream for run, stream in enumerate(module.streams)}
        return named

    def save(self) -> None:
        assert self.checkpoint is not None
        tensors = {f"weight/{name}": tensor for name, tensor in self.method.state_dict().items()}
        tensors |= {f"kept/{name}": tensor for name, tensor in self.best_weights.items()}
        for name, parameter in self.parameters.items():
            state = self.optimizer.state.get(parameter)
            tensors |= {f"adam/{key}/{name}": state[key] for key in self.optimizer.remembers if state}
        tensors |= {f"memory/{name}": getattr(self.method, name) for name in self.method.remembers}
        tensors |= {f"stream/{name}": stream.get_state() for name, stream in self._streams().items()}
        header = {"stage": self.stage, "identity": self.identity, "state": json.dumps(self.state.__dict__)}
        write_tensors(self.checkpoint, tensors, header)

    def resume(self) -> bool:
        """Continue from the checkpoint if it is this stage's; False if there is none."""
        assert self.checkpoint is not None
        stored = checkpoints.read(self.checkpoint)
        if stored is None:
            return False
        tensors, header = stored
        if header.get("stage") != self.stage:
            return False
        weights = {name: tensor for name, tensor in tensors.items() if name.startswith("weight/")}
        shapes = {f"weight/{name}": tensor.shape for name, tensor in self.method.state_dict().items()}
        same = shapes == {name: tensor.shape for name, tensor in weights.items()}
        if not same or header.get("identity") != self.identity:
            problem = f"{self.checkpoint} is of another model, method, options, seeds or data; give another "
            raise InputError(problem, Argument("out"), ", or train again without ", Argument("resume", True), ".")
        try:
            self._restore(tensors, weights, TrainState(**json.loads(header["state"])))
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(
                f"{self.checkpoint} is damaged ({what}); train again without ", Argument("resume", True), "."
            ) from None
        return True

    def _restore(self, tensors: dict[str, Tensor], weights: dict[str, Tensor], state: TrainState) -> None:
        """Take over what a checkpoint holds; what does not fit is an error of some kind."""
        state = TypeAdapter(TrainState).validate_python(state.__dict__)
        per_run = (state.value, state.best, state.bad, state.stopped_at)
        if any(len(values) != len(self.l2) for values in per_run):
            raise ValueError("its state is of another number of runs")
        running = [run for run, stopped in enumerate(state.stopped_at) if not stopped]
        if bad := not_finite({name: tensor[running] for name, tensor in weights.items()}):
            raise ValueError(f"{bad} has numbers that are not finite")
        self.method.load_state_dict({name.removeprefix("weight/"): tensor for name, tensor in weights.items()})
        device = self.l2.device
        self.best_weights = {n.removeprefix("kept/"): t.to(device) for n, t in tensors.items() if n.startswith("kept/")}
        shapes = {name: tensor.shape for name, tensor in self.best_weights.items()}
        if shapes and shapes != {name: tensor.shape for name, tensor in self.method.state_dict().items()}:
            raise ValueError("its best weights are of another model")
        for name, parameter in self.parameters.items():
            keys = [key for key in self.optimizer.remembers if f"adam/{key}/{name}" in tensors]
            if 0 < len(keys) < len(self.optimizer.remembers):
                raise ValueError(f"averages of {name} are missing")
            if keys:
                averages = {k: tensors[f"adam/{k}/{name}"].to(device) for k in keys}
                if any(averages[k].shape != parameter.shape for k in keys if k != "step"):
                    raise ValueError(f"averages of {name} are of another shape")
                self.optimizer.state[parameter] = averages
        for name in self.method.remembers:
            memory, stored = getattr(self.method, name), tensors[f"memory/{name}"]
            if memory.shape != stored.shape:
                raise ValueError(f"{name} is of another shape")
            memory.copy_(stored)
        for name, stream in self._streams().items():
            stream.set_state(tensors[f"stream/{name}"])
        self.state = state
