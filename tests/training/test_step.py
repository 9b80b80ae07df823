"""A training step: the loss of each run is added up, the optimiser moves."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.data.sampling import Batch
from accord.nn.adam import Adam
from accord.nn.layers import Trainable
from accord.training.step import Steps

BATCH = Batch(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 4, dtype=torch.long), 2)


class Pull(Trainable):
    """Pulls a weight of each run towards 3: the loss is the squared distance."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0], [2.0]]))
        self.began = []

    def begin_step(self, step):
        self.began.append(step)
        return "step"

    def loss(self, batch):
        assert self.weight.grad is None, "the gradient of the step before is gone"
        return (self.weight[:, 0] - 3) ** 2

    def decay(self, l2):
        return {self.weight: l2}


def steps_of(method, l2=(0.0, 0.0)):
    return Steps(method, Adam(method.parameters(), 0.5), torch.tensor(l2))


def test_losses_of_each_run_are_summed_over_steps():
    method = Pull()
    steps = steps_of(method)
    steps.take(BATCH, 0)
    assert steps.total.tolist() == [4.0, 1.0]
    torch.testing.assert_close(method.weight.detach(), torch.tensor([[1.5], [2.5]]))
    steps.take(BATCH, 1)
    assert steps.total.tolist() == pytest.approx([4.0 + 1.5**2, 1.0 + 0.5**2], abs=1e-5)
    assert method.began == [0, 1]
    assert not steps.total.requires_grad


def test_the_penalty_is_the_runs_own():
    """The loss pulls run 0 up with slope -4, and the penalty down with 4 * 1: nothing is left."""
    method = Pull()
    steps_of(method, (4.0, 0.0)).take(BATCH, 0)
    assert method.weight[0].item() == pytest.approx(1.0)
    assert method.weight[1].item() == pytest.approx(2.5)


def test_on_a_cpu_nothing_is_recorded():
    class Promises(Pull):
        recordable = True

    steps = steps_of(Promises())
    with steps.apart():
        for step in range(3):
            steps.take(BATCH, step)
    assert not steps.records
    assert not steps.graphs
    assert not steps.seen


@pytest.mark.parametrize("recordable", [True, False])
def test_what_does_not_promise_it_is_not_recorded(recordable, monkeypatch):
    """As it would be on a GPU: decided by the method and the models in it."""

    class Some(Pull):
        pass

    Some.recordable = recordable
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _tensor: True))
    method = Some()
    optimizer = Adam.__new__(Adam)  # it would ask for a GPU
    assert Steps(method, optimizer, torch.zeros(2)).records == recordable


def test_the_second_step_of_a_kind_is_recorded_unless_the_training_ends(monkeypatch):
    """Where a GPU would record, told by what is asked for."""
    asked = []
    monkeypatch.setattr(Steps, "_take", lambda _steps, batch: asked.append(("taken", batch.num_positives)))
    monkeypatch.setattr(Steps, "_record", lambda _steps, _key, batch: asked.append(("recorded", batch.num_positives)))
    steps = steps_of(Pull())
    steps.records = True
    long, short = BATCH, Batch(BATCH.users[:, :2], BATCH.items[:, :2], 1)
    for batch in (long, long, short):
        steps.take(batch, 0)
    assert asked == [("taken", 2), ("recorded", 2), ("taken", 1)]
    steps.ending = True
    steps.take(short, 0)
    assert asked[3:] == [("taken", 1)]
