"""Trainings whose course is known in advance: scripted checks, runs that diverge."""

from __future__ import annotations

import torch
from torch import nn

from accord.data.sampling import Sampler, TrainingPairs
from accord.nn.layers import Trainable
from accord.random import generators
from accord.training.run import RunSpec
from accord.training.trainer import Stopping, TrainConfig, Trainer
from helpers import CPU, random_csr


class Ramp(Trainable):
    """A weight of each run that every step moves by the learning rate: it tells how many steps it was trained."""

    def __init__(self, runs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(runs, 1))
        self.bad_run: int | None = None

    def begin_step(self, step):
        self.step = step
        return "step"

    def loss(self, batch):
        losses = self.weight.sum(1)
        if self.bad_run is not None and self.step >= 4:
            losses = losses + torch.tensor([float("nan") if run == self.bad_run else 0.0 for run in range(len(losses))])
        return losses

    def decay(self, l2):
        return {}


def scripted(values, rule, patience, epochs=6, every=2):
    """A trainer of four steps an epoch whose checks give these values: [runs][checks]."""
    runs = len(values)
    script = iter(zip(*values, strict=True))
    stopping = Stopping(rule, lambda: torch.tensor(next(script)), every, every, patience)
    method = Ramp(runs)
    return method, Trainer(
        method, tiny_sampler(runs), TrainConfig(epochs=epochs, lr=0.5), torch.zeros(runs), stopping, "1/1"
    )


def tiny_sampler(runs):
    train = random_csr(6, 5, 0.5)
    size = -(-len(train.items) // 4)
    sampler = Sampler(TrainingPairs.of(train, CPU), generators(range(runs), "test"), size, "all")
    assert sampler.num_batches == 4
    return sampler


def steps_of(method):
    return [round(-weight / 0.5) for weight in method.weight.detach().flatten().tolist()]


def spoil(monkeypatch, model, seed):
    """Let a run of a seed start from weights that are no numbers."""
    build = RunSpec.build

    def spoilt(run, train):
        made = build(run, train)
        with torch.no_grad():
            for number, own in enumerate(made.target.seeds):
                if own == seed:
                    made.target.item.weight[number] = float("nan")
        return made

    monkeypatch.setattr(RunSpec, "build", spoilt)
