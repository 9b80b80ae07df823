"""The training loop: diverging, progress."""

from __future__ import annotations

import pytest
import torch

from accord.training.stack import train_stack
from accord.training.step import Steps
from accord.training.trainer import Diverged, TrainConfig, Trainer
from helpers import CPU, plan_small, small_data, train_small
from ramp import Ramp, scripted, steps_of, tiny_sampler


def test_a_loss_that_is_no_number_is_said_in_one_sentence():
    method = Ramp(1)
    method.bad_run = 0
    trainer = Trainer(method, tiny_sampler(1), TrainConfig(epochs=5), torch.zeros(1), None, "1/1")
    with pytest.raises(Diverged, match=r"^training diverged in epoch 2: loss or weights .*; try a smaller train.lr"):
        trainer.train()


def test_a_run_that_diverges_is_left_out_and_its_neighbours_go_on():
    method = Ramp(3)
    method.bad_run = 1
    trainer = Trainer(method, tiny_sampler(3), TrainConfig(epochs=5, lr=0.5), torch.zeros(3), None, "1/1")
    state = trainer.train()
    assert (state.diverged, state.stopped_at, state.epoch) == ([1], [0, 2, 0], 5)
    weights = method.weight.detach().flatten().tolist()
    assert [weights[0], weights[2]] == [-10.0, -10.0]


def test_weights_that_are_no_numbers_are_noticed_though_the_loss_is_one():
    """The last step of training may leave such weights; no loss after it would tell."""
    method, sampler = Ramp(1), tiny_sampler(1)
    trainer = Trainer(method, sampler, TrainConfig(epochs=1, lr=1e38), torch.zeros(1), None, "1/1")
    with pytest.raises(Diverged, match="in epoch 1"):
        trainer.train()
    assert not torch.isfinite(method.weight).all()


def test_a_stopped_run_that_diverges_does_not_stop_its_neighbours():
    """The run stops at its third step, and its loss is no number from the fifth on."""
    values = [[1.0] * 24, [1.0, 2.0, 3.0, *[9.0] * 21]]
    method, trainer = scripted(values, "loss-rise", patience=2, every=1)
    method.bad_run = 1
    state = trainer.train()
    assert state.stopped_at == [0, 1]
    assert steps_of(method) == [24, 3]
    assert [entry["loss"][1] is None for entry in state.history] == [False, *[True] * 5]


def test_a_learning_rate_far_too_large_diverges():
    with pytest.raises(Diverged, match="training diverged"):
        train_small("gmf", "normal", (3,), epochs=5, train__lr=1e20)


def test_progress_is_told_after_every_epoch():
    seen = []
    run = plan_small("gmf", "deca-p", (3, 5), epochs=2)
    train_stack(small_data(), run, CPU, watch=seen.append)
    assert [(progress.stage, progress.epoch) for progress in seen] == [("1/2", 1), ("1/2", 2), ("2/2", 1), ("2/2", 2)]
    steps = -(-len(small_data().train) // 128)
    assert [progress.step for progress in seen] == [steps, 2 * steps] * 2
    assert all(progress.epochs == 2 and progress.loss > 0 and 0 < progress.value < 1 for progress in seen)


@pytest.mark.parametrize(("epochs", "ending"), [(1, [False]), (3, [False, False, True])])
def test_the_last_epoch_is_known_to_be_the_last_unless_it_is_the_first_too(epochs, ending, monkeypatch):
    told = []
    take = Steps.take

    def noted(steps, batch, step):
        told.append(steps.ending)
        take(steps, batch, step)

    monkeypatch.setattr(Steps, "take", noted)
    run = plan_small("mf", "normal", (3,), epochs=epochs, train__early_stop=False)
    train_stack(small_data(), run, CPU)
    assert [told[len(told) // epochs * epoch] for epoch in range(epochs)] == ending
