"""The training loop: resuming, early stopping, diverging."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from accord.data.sampling import Sampler, TrainingPairs
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.fitting import fit
from accord.io.tensors import read_tensors, write_tensors
from accord.nn.layers import Trainable
from accord.protocol import CORRECTED
from accord.random import generators
from accord.recommender.recommender import Recommender
from accord.training import validation
from accord.training.run import RunSpec
from accord.training.stack import Bench, train_stack
from accord.training.stopping import Stopping
from accord.training.trainer import Diverged, TrainConfig, Trainer
from contracts import TwoTower
from helpers import (
    CPU,
    assert_same_weights,
    one_run,
    plan_small,
    random_csr,
    small_data,
    train_small,
)

EPOCHS = 3


class Interrupted(Exception):
    pass


@pytest.fixture
def checkpoint_always(monkeypatch):
    """A checkpoint after every epoch, and validation loss checked often where that is the rule."""
    make = Bench.trainer

    def trainer(*arguments):
        made = make(*arguments)
        made.config = made.config.model_copy(update={"checkpoint_seconds": 0})
        return made

    monkeypatch.setattr(Bench, "trainer", trainer)
    monkeypatch.setattr(validation, "Stopping", often)


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


# --- early stopping


def validation_ndcg(method, runs):
    """NDCG@20 on the validation of the weights that a method holds: one a run."""
    data = small_data()
    relevant, train = Relevant.of_validation(data, CORRECTED), data.csr(data.train)
    target = method.target
    ranker = Ranker.of(target, target.score_all, runs, relevant.seen, train, CORRECTED, CPU)
    return evaluate(ranker, relevant, [20]).per_user["ndcg@20"].mean(1).tolist()


@pytest.mark.parametrize(("model", "method"), [("gmf", "normal"), ("lightgcn", "normal"), ("gmf", "deca")])
def test_early_stopping_gives_back_the_best_weights_of_each_run(model, method):
    seeds = (3, 5, 8, 13)
    trained, states = train_small(model, method, seeds, epochs=40, train__patience=2, train__lr=0.03)
    state = states[-1]
    assert validation_ndcg(trained, len(seeds)) == pytest.approx(state.best, abs=1e-12)
    assert len(set(state.stopped_at)) > 1, "each run stops by itself"
    for run, stopped in enumerate(state.stopped_at):
        values = [entry["valid"][run] for entry in state.history][: stopped or None]
        assert max(values) == pytest.approx(state.best[run], abs=1e-6)
        if stopped:
            assert max(values[-2:]) <= max(values[:-2]), "two checks without a new best"
            assert stopped <= len(state.history)
            later = [entry["valid"][run] for entry in state.history][stopped:]
            assert set(later) <= {values[-1]}, "no check of a stopped run"


def test_a_run_that_stops_first_is_as_it_is_alone():
    seeds = (3, 5, 8, 13)
    stack, states = train_small("gmf", "normal", seeds, epochs=40, train__patience=2, train__lr=0.03)
    first = min(range(4), key=lambda run: states[0].stopped_at[run] or 99)
    alone, its = train_small("gmf", "normal", (seeds[first],), epochs=40, train__patience=2, train__lr=0.03)
    assert 0 < its[0].stopped_at[0] == states[0].stopped_at[first] < states[0].epoch
    for name, tensor in one_run(stack.state_dict(), first, 4).items():
        torch.testing.assert_close(tensor, one_run(alone.state_dict(), 0, 1)[name], rtol=1e-3, atol=1e-4)


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


def test_the_second_rise_over_the_value_before_stops():
    nan = float("nan")
    method, trainer = scripted(
        [
            # a rise; then below the value before though above the best, which is no rise; then the second rise
            [1.0, 0.5, 0.7, 0.6, 0.65, nan, nan, nan, nan, nan, nan, nan],
            [12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0],  # never
            [1.0, 2.0, 3.0, nan, nan, nan, nan, nan, nan, nan, nan, nan],  # at once
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0],  # equal is no rise; the last check stops
        ],
        "loss-rise",
        patience=2,
    )
    state = trainer.train()
    assert state.stopped_at == [3, 0, 2, 6]
    assert steps_of(method) == [10, 24, 6, 24], "a stopped run keeps its last weights while the others go on"
    assert state.value == pytest.approx([0.65, 1.0, 3.0, 3.0])
    assert state.bad == [2, 0, 2, 2]


def test_training_ends_when_every_run_has_stopped():
    method, trainer = scripted([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], "loss-rise", patience=2)
    state = trainer.train()
    assert (state.epoch, state.step) == (2, 6)
    assert steps_of(method) == [6, 6]


def test_the_best_weights_come_back_whatever_came_after():
    method, trainer = scripted(
        [
            [0.1, 0.3, 0.2, 0.3, 0.4, 0.3, 0.3, 0.3, 0.9, 0.9, 0.9, 0.9],  # 0.3 again is no new best; 0.4 is
            [0.5, 0.4, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],  # stopped before the 0.9
            [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.5],  # never stopped: best before the last
        ],
        "best-ndcg",
        patience=3,
    )
    state = trainer.train()
    assert state.best == pytest.approx([0.4, 0.5, 0.6])
    assert state.stopped_at == [4, 2, 0]
    assert steps_of(method) == [10, 2, 22]


# --- diverging


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


@pytest.mark.parametrize("method", ["deca", "ensemble"])
def test_a_stack_gives_back_the_runs_that_did_not_diverge(method, monkeypatch):
    """As they are when trained without the one that did."""
    options = {"epochs": 3, "train__early_stop": False, "train__l2": 0.1}
    spoil(monkeypatch, "gmf", seed=5)
    with pytest.raises(Diverged, match=r"^training diverged with seed 5 of gmf \+ \w+: ") as found:
        train_small("gmf", method, (3, 5, 8), **options)
    run, rest, states = found.value.rest
    assert run.config.seeds == (3, 8)
    assert [len(state.best) for state in states] == [2 * rest.members]
    assert all(math.isfinite(loss) for state in states for entry in state.history for loss in entry["loss"])
    for number, seed in enumerate((3, 8)):
        alone, _ = train_small("gmf", method, (seed,), **options)
        for name, tensor in one_run(rest.state_dict(), number, 2).items():
            torch.testing.assert_close(tensor, one_run(alone.state_dict(), 0, 1)[name], rtol=1e-3, atol=1e-4)


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


def test_fit_keeps_what_did_not_diverge(monkeypatch, tmp_path):
    spoil(monkeypatch, "gmf", seed=2020)
    with pytest.warns(UserWarning, match="diverged with seed 2020"):
        made = fit(small_data(), "gmf", "normal", seeds=3, epochs=2, device="cpu", out=tmp_path / "run")
    assert [run["seed"] for run in made.metrics["runs"]] == [2019, 2021]
    monkeypatch.undo()
    loaded = Recommender.load(tmp_path / "run")
    assert "2020" in loaded.metrics["diverged"]
    assert loaded.recommend(k=5).equals(made.recommend(k=5))


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
    with pytest.raises(Diverged, match=f"in epoch 3: .*the last good checkpoint is kept in {tmp_path}; try a smaller"):
        train_stack(small_data(), run, CPU, folder=tmp_path)
    monkeypatch.setattr(Trainer, "save", save)
    seen = []
    train_stack(small_data(), run, CPU, folder=tmp_path, resume=True, watch=seen.append)
    assert [progress.epoch for progress in seen] == [3, 4, 5]


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
