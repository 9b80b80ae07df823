"""What a training is stopped by: the validation, ranked or as a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from accord.data.sampling import TrainingPairs
from accord.evaluation.evaluate import Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from accord.training.stack import by_loss, by_ndcg
from helpers import CPU, one_run, plan_small, small_data, spread, train_small


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


def stage_of(model="mf", method="normal", seeds=(3, 5), protocol="corrected"):
    """A method with weights far from their start, and its training pairs."""
    run = plan_small(model, method, seeds, protocol=protocol)
    train = small_data().training_csr()
    stage = run.build(train).eval()
    spread(stage)
    return run.config.protocol, train, stage


@torch.no_grad()
def test_ndcg_is_checked_after_every_epoch():
    rules, train, stage = stage_of()
    stopping = by_ndcg(small_data(), train, rules, stage, 7, 4, CPU)
    assert (stopping.rule, stopping.every, stopping.offset, stopping.patience) == ("best-ndcg", 7, 7, 4)
    assert stopping.check().tolist() == pytest.approx(validation_ndcg(stage, 2), abs=1e-12)


def test_without_validation_pairs_of_known_users_nothing_is_checked():
    rules, train, stage = stage_of()
    data = small_data()
    nothing = replace(data, valid=data.valid.slice(0, 0), valid_clean=None)
    assert by_ndcg(nothing, train, rules, stage, 1, 1, CPU) is None


@torch.no_grad()
def test_loss_is_bce_with_fresh_negatives_that_were_not_seen_in_training():
    rules, train, stage = stage_of(protocol="published")
    data = small_data()
    stopping = by_loss(data, rules, stage, TrainingPairs.of(train, CPU), CPU)
    assert (stopping.rule, stopping.every, stopping.offset, stopping.patience) == ("loss-rise", 500, 501, 2)
    asked = []
    forward = stage.target.forward
    stage.target.forward = lambda users, items: asked.append((users, items)) or forward(users, items)
    first, second = stopping.check(), stopping.check()
    assert not torch.equal(first, second), "negatives are drawn anew"
    (users, items), (owners, drawn) = asked[:2]
    valid = data.csr(validation_part(data, rules))
    assert (users[0].tolist(), items[0].tolist()) == (valid.users.tolist(), valid.items.tolist())
    assert not train.contains(owners.numpy().ravel(), drawn.numpy().ravel()).any()
    positive, negative = (torch.sigmoid(forward(*pairs)).double() for pairs in asked[:2])
    expected = -(positive.log().mean(1) + (1 - negative).log().mean(1))
    torch.testing.assert_close(first.double(), expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_run_is_checked_with_its_own_negatives_whatever_its_neighbours():
    rules, train, stage = stage_of(seeds=(3, 5), protocol="published")
    _, _, alone = stage_of(seeds=(5,), protocol="published")
    alone.load_state_dict({name: tensor[1:] for name, tensor in stage.state_dict().items()})
    pairs = TrainingPairs.of(train, CPU)
    values = [by_loss(small_data(), rules, made, pairs, CPU).check() for made in (stage, alone)]
    torch.testing.assert_close(values[0][1:], values[1])
