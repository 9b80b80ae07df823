"""Checkpoints, and a training that was interrupted, resumed, refused or damaged."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from accord.errors import InputError
from accord.io.tensors import read_tensors, write_tensors
from accord.training import checkpoints, stack
from accord.training.stack import StackTraining, train_stack
from accord.training.trainer import Diverged, Stopping, Trainer
from contracts import TwoTower
from helpers import CPU, assert_same_weights, plan_small, small_data

EPOCHS = 3


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_checkpoints_are_found_and_removed_and_nothing_else(tmp_path):
    others, written = ["config.json", "checkpoint-1.txt"], ["checkpoint-1.safetensors", "checkpoint-2.safetensors"]
    for name in (*others, *written):
        (tmp_path / name).touch()
    assert sorted(path.name for path in checkpoints.in_folder(tmp_path)) == written
    for _ in range(2):  # another process may have been quicker
        checkpoints.remove(tmp_path)
        assert names(tmp_path) == sorted(others)


class Interrupted(Exception):
    pass


@pytest.fixture
def checkpoint_always(monkeypatch):
    """A checkpoint after every epoch, and validation loss checked often where that is the rule."""
    make = StackTraining.trainer

    def trainer(*arguments):
        made = make(*arguments)
        made.config = made.config.model_copy(update={"checkpoint_seconds": 0})
        return made

    monkeypatch.setattr(StackTraining, "trainer", trainer)
    monkeypatch.setattr(stack, "Stopping", often)


def often(rule, check, every, offset, patience, streams=()):
    """Stopping that checks every third step where the released code does so every 500."""
    if rule == "loss-rise":
        every, offset = 3, 4
    return Stopping(rule, check, every, offset, patience, list(streams))


def interrupt_at(stage, epoch):
    def watch(progress):
        if (progress.stage, progress.epoch) == (stage, epoch):
            raise Interrupted

    return watch


@functools.cache
def uninterrupted(model, method, protocol):
    run = plan_small(model, method, (3, 5), protocol=protocol, epochs=EPOCHS, train__patience=2)
    method, states = train_stack(small_data(), run, CPU)
    return method.state_dict(), states


CASES = [
    ("gmf", "normal", "corrected", "1/1"),
    ("gmf", "deca", "corrected", "1/1"),
    ("gmf", "deca-p", "corrected", "1/2"),
    ("gmf", "deca-p", "corrected", "2/2"),
    ("cdae", "normal", "corrected", "1/1"),
    ("cdae", "deca-p", "published", "2/2"),  # the frozen partner scores with dropout too
    ("lightgcn", "ensemble", "corrected", "1/1"),
    (TwoTower, "normal", "corrected", "1/1"),
    (TwoTower, "deca-p", "corrected", "1/2"),
    (TwoTower, "deca-p", "corrected", "2/2"),
    ("mf", "tce", "published", "1/1"),
    ("gmf", "dcf", "corrected", "1/1"),  # means of all epochs
    ("cdae", "pld", "corrected", "1/1"),  # interactions that are drawn
    ("mf", "udt", "corrected", "1/1"),  # weights of the epoch
]


@pytest.mark.usefixtures("checkpoint_always")
@pytest.mark.parametrize("epoch", range(1, EPOCHS + 1))
@pytest.mark.parametrize(("model", "method", "protocol", "stage"), CASES)
def test_a_resumed_run_ends_at_the_very_same_weights(model, method, protocol, stage, epoch, tmp_path):
    """Interrupted in every epoch of every stage: in the first there is no checkpoint of the stage yet."""
    weights, states = uninterrupted(model, method, protocol)
    number = int(stage[0])
    if states[number - 1].epoch < epoch:
        pytest.skip("stopped early before that")
    run = plan_small(model, method, (3, 5), protocol=protocol, epochs=EPOCHS, train__patience=2)
    with pytest.raises(Interrupted):
        train_stack(small_data(), run, CPU, folder=tmp_path, watch=interrupt_at(stage, epoch))
    assert (tmp_path / f"checkpoint-{number}.safetensors").exists() == (epoch > 1)
    seen = []
    trained, resumed = train_stack(small_data(), run, CPU, folder=tmp_path, resume=True, watch=seen.append)
    assert (seen[0].stage, seen[0].epoch) == (stage, epoch), "nothing is trained twice"
    assert_same_weights(trained.state_dict(), weights)
    for mine, whole in zip(resumed, states, strict=True):
        assert (mine.epoch, mine.step, mine.stopped_at) == (whole.epoch, whole.step, whole.stopped_at)
        assert [entry["loss"] for entry in mine.history] == [entry["loss"] for entry in whole.history]
        assert mine.best == whole.best


@pytest.mark.usefixtures("checkpoint_always")
@pytest.mark.parametrize("model", ["gmf", "cdae"])
def test_runs_of_one_seed_resume_with_the_batches_that_they_share(model, tmp_path):
    varied = tuple({"method.c1": c1} for c1 in (1.0, 10.0, 100.0))
    run = plan_small(model, "deca", (3, 5, 7), epochs=EPOCHS).updated(varied=varied, seeds=(3, 5, 3))
    whole, _ = train_stack(small_data(), run, CPU)
    with pytest.raises(Interrupted):
        train_stack(small_data(), run, CPU, folder=tmp_path, watch=interrupt_at("1/1", 2))
    resumed, _ = train_stack(small_data(), run, CPU, folder=tmp_path, resume=True)
    assert_same_weights(resumed.state_dict(), whole.state_dict())
    alone = plan_small(model, "deca", (3,), epochs=EPOCHS, method__c1=100.0)
    last, _ = train_stack(small_data(), alone, CPU)
    for name, weights in last.state_dict().items():
        torch.testing.assert_close(weights[0], whole.state_dict()[name][2], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.usefixtures("checkpoint_always")
def test_a_finished_run_resumes_to_itself(tmp_path):
    run = plan_small("gmf", "deca-p", (3, 5), epochs=2)
    first, _ = train_stack(small_data(), run, CPU, folder=tmp_path)
    again, states = train_stack(small_data(), run, CPU, folder=tmp_path, resume=True, watch=interrupt_at("2/2", 2))
    assert_same_weights(first.state_dict(), again.state_dict())
    assert [state.epoch for state in states] == [2, 2]


@pytest.mark.usefixtures("checkpoint_always")
def test_a_new_training_forgets_the_checkpoints_of_an_old_one(tmp_path):
    """Not resumed, interrupted early, then resumed: nothing of the first training may come back in stage two."""
    data = small_data()
    old = plan_small("gmf", "deca-p", (3, 5), epochs=EPOCHS, method__c1=1.0)
    with pytest.raises(Interrupted):
        train_stack(data, old, CPU, folder=tmp_path, watch=interrupt_at("2/2", 2))
    new = plan_small("gmf", "deca-p", (3, 5), epochs=EPOCHS, method__c1=500.0)
    with pytest.raises(Interrupted):
        train_stack(data, new, CPU, folder=tmp_path, watch=interrupt_at("1/2", 2))
    resumed, _ = train_stack(data, new, CPU, folder=tmp_path, resume=True)
    whole, _ = train_stack(data, new, CPU)
    assert_same_weights(resumed.state_dict(), whole.state_dict())


OTHERS = {
    "model": plan_small("mf", "deca", (3,)),
    "method": plan_small("gmf", "normal", (3,)),
    "more seeds": plan_small("gmf", "deca", (3, 5)),
    "another seed": plan_small("gmf", "deca", (4,)),
    "another option": plan_small("gmf", "deca", (3,), method__c1=7.0),
    "another protocol": plan_small("gmf", "deca", (3,), protocol="published"),
}


@pytest.mark.usefixtures("checkpoint_always")
@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_another_training_is_refused(other, tmp_path):
    data = small_data()
    with pytest.raises(Interrupted):
        train_stack(data, plan_small("gmf", "deca", (3,)), CPU, folder=tmp_path, watch=interrupt_at("1/1", 2))
    with pytest.raises(InputError, match="of another model, method, options, seeds or data"):
        train_stack(data, OTHERS[other], CPU, folder=tmp_path, resume=True)


@pytest.mark.usefixtures("checkpoint_always")
def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    data, run = small_data(), plan_small("gmf", "normal", (3,))
    with pytest.raises(Interrupted):
        train_stack(data, run, CPU, folder=tmp_path, watch=interrupt_at("1/1", 2))
    fewer = replace(data, train=data.train.take(range(len(data.train) - 1)))
    with pytest.raises(InputError, match="seeds or data"):
        train_stack(fewer, run, CPU, folder=tmp_path, resume=True)


@pytest.mark.usefixtures("checkpoint_always")
@pytest.mark.parametrize("lost", ["step", "exp_avg", "exp_avg_sq"])
def test_a_checkpoint_without_an_average_is_damaged(lost, tmp_path):
    run = plan_small("gmf", "normal", (3,))
    with pytest.raises(Interrupted):
        train_stack(small_data(), run, CPU, folder=tmp_path, watch=interrupt_at("1/1", 2))
    path = tmp_path / "checkpoint-1.safetensors"
    tensors, header = read_tensors(path)
    del tensors[f"adam/{lost}/target.user.weight"]
    write_tensors(path, tensors, header)
    with pytest.raises(InputError, match=r"is damaged \(ValueError: averages of target.user.weight are missing\)"):
        train_stack(small_data(), run, CPU, folder=tmp_path, resume=True)


@pytest.mark.usefixtures("checkpoint_always")
def test_a_run_can_go_on_for_longer_than_was_asked_at_first(tmp_path):
    short, long = (plan_small("gmf", "deca", (3,), epochs=epochs, train__early_stop=False) for epochs in (2, 4))
    train_stack(small_data(), short, CPU, folder=tmp_path)
    longer, _ = train_stack(small_data(), long, CPU, folder=tmp_path, resume=True)
    whole, _ = train_stack(small_data(), long, CPU)
    assert_same_weights(longer.state_dict(), whole.state_dict())


def test_a_damaged_checkpoint_is_an_input_error(tmp_path):
    (tmp_path / "checkpoint-1.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="damaged"):
        train_stack(small_data(), plan_small("gmf", "normal", (3,)), CPU, folder=tmp_path, resume=True)


@pytest.mark.usefixtures("checkpoint_always")
def test_the_last_good_checkpoint_is_kept(tmp_path, monkeypatch):
    """A run that diverges in its third epoch goes on from its second."""
    run = plan_small("gmf", "normal", (3,), epochs=5)

    save = Trainer.save

    def save_and_spoil(trainer):
        save(trainer)
        if trainer.state.epoch == 2:
            with torch.no_grad():
                trainer.method.target.item.weight.fill_(float("inf"))

    monkeypatch.setattr(Trainer, "save", save_and_spoil)
    with pytest.raises(Diverged, match=f"in epoch 3: .*the last good checkpoint is in {tmp_path}; try a smaller"):
        train_stack(small_data(), run, CPU, folder=tmp_path)
    monkeypatch.setattr(Trainer, "save", save)
    seen = []
    train_stack(small_data(), run, CPU, folder=tmp_path, resume=True, watch=seen.append)
    assert [progress.epoch for progress in seen] == [3, 4, 5]
