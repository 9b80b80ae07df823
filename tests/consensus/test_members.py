"""Members of a consensus: how they are trained, and what they learn from labels."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import torch

from accord.consensus.members import MemberTraining
from accord.models.consensus import Member
from accord.training import stack
from helpers import CPU, assert_same_weights, plan_small, small_data
from oracles import with_threads


def member_training(**options):
    return MemberTraining(small_data(), plan_small("auto", "normal", (3,), **options), CPU)


def test_p_real_is_the_target_of_a_learned_member_and_the_weight_of_a_solved_one(monkeypatch):
    p_real, taken = np.linspace(0, 1, len(small_data().training_csr().items)), []
    training = member_training()
    training.p_real = p_real
    monkeypatch.setattr(stack, "train_stack", lambda *_, columns, **__: taken.append(columns) or (None, []))
    monkeypatch.setattr(training, "validate", lambda method: None)
    training.candidates([Member(model="ials", by_p_real=True), Member(model="mf", method="normal", by_p_real=True)])
    training.candidate(Member(model="mf", method="normal"))
    training.candidate(Member(model="mf", method="softmax", by_p_real=True))
    solved, learned, as_it_is, softmax = taken
    share = p_real / p_real.mean()
    np.testing.assert_array_equal(solved["weight"], share)
    np.testing.assert_array_equal(learned["label"], np.minimum(share, 1))
    np.testing.assert_array_equal(softmax["label"], p_real)
    assert "label" not in solved
    assert "weight" not in learned
    assert set(as_it_is) == {"p_real"}


QUICK = Member(model="mf", method="normal", options={"train.epochs": 3}, seeds=2)
LONG = Member(model="gmf", method="normal", options={"train.epochs": 10**6, "train.early_stop": False})


def test_members_trained_in_the_background_are_the_same():
    training, threads = member_training(), []

    def trained():
        threads.append(torch.get_num_threads())
        return training.candidate(QUICK)

    def in_turn():
        with training.in_background([QUICK, Member(model="ease")]):
            assert len(training._background) == (torch.get_num_threads() > 1), "a solved one is not started"
            return trained()

    alone, other = with_threads(1, trained), with_threads(4, in_turn)
    assert threads == [1, 2]
    assert other.entry == alone.entry
    assert_same_weights(alone.method.state_dict(), other.method.state_dict())


def test_a_training_that_nobody_waits_for_is_ended():
    training = member_training()

    def left():
        with training.in_background([LONG, QUICK]):
            futures = [future for _, future in training._background]
        return futures, torch.get_num_threads()

    (begun, waiting), threads = with_threads(2, left)
    assert begun.done()
    assert not waiting.done(), "it is never begun"
    assert threads == 2
    assert training._background == []


def test_who_would_wait_for_the_other_thread_trains_what_that_would_come_to_last(monkeypatch):
    """And what is found keeps the order of the members."""
    training, by_this_one = member_training(), []
    real, ended = stack.train_stack, threading.Event()

    def train(data, run, *rest, **more):
        if threading.current_thread() is threading.main_thread():
            by_this_one.append((run.config.model, len(run.config.seeds)))
            if run.config.model == "mf":
                ended.set()
        else:
            assert ended.wait(60), "the other thread has enough to do until then"
        return real(data, run, *rest, **more)

    monkeypatch.setattr(stack, "train_stack", train)
    once = QUICK.model_copy(update={"seeds": 1})
    found = with_threads(2, lambda: training.candidates([QUICK, once, Member(model="ease")]))
    assert [one.member.label for one in found] == ["mf + normal x 2", "mf + normal", "ease"]
    assert by_this_one == [("ease", 1), ("mf", 1)], "what is solved first"


def test_an_error_in_the_background_leaves_the_member_out():
    training, bad = member_training(), QUICK.model_copy(update={"options": {"train.lr": 1e30}})

    def ask():
        with training.in_background([bad]):
            return training.candidate(bad)

    assert with_threads(2, ask) is None
    assert training.notes[0].startswith("mf + normal x 2 is left out: training diverged")


def test_a_member_that_does_not_fit_into_memory_is_left_out(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    training = member_training()
    monkeypatch.setattr(stack, "train_stack", full)
    assert training.candidates([Member(model="ease")]) == []
    assert training.notes == ["ease is left out: it does not fit into memory."]


def test_a_trial_is_taken_up_by_a_search_of_the_same_log_that_resumes(tmp_path, monkeypatch):
    run = plan_small("auto", "normal", (3,))

    def found(data, resume=True):
        return MemberTraining(data, run, CPU, folder=tmp_path, resume=resume).candidate(QUICK)

    first, trained = found(small_data()), []
    train_stack = stack.train_stack
    monkeypatch.setattr(stack, "train_stack", lambda *rest, **more: trained.append(rest) or train_stack(*rest, **more))
    again = found(small_data())
    assert not trained
    assert again.entry == first.entry
    assert again.member.epochs, "which it is trained for in the fits without validation"
    assert_same_weights(again.method.state_dict(), first.method.state_dict())
    (kept,) = tmp_path.iterdir()
    whole = kept.stat().st_size
    MemberTraining(small_data(), run, CPU, folder=tmp_path, resume=True).drop(again)
    assert kept.stat().st_size < whole / 2, "without weights"
    assert found(small_data()).entry == first.entry
    assert not trained, "what was dropped is known, too"
    found(replace(small_data(), train=small_data().train.slice(0, 500)))
    assert len(trained) == 1, "a log that has changed"
    found(small_data())
    found(small_data(), resume=False)
    assert len(trained) == 3, "a search that begins anew"


def test_of_very_many_users_a_training_is_stopped_by_those_that_members_are_evaluated_by(monkeypatch):
    whole = member_training()
    assert whole._unlabelled.valid is whole.data.valid
    monkeypatch.setattr("accord.evaluation.evaluate.MOST_SAMPLED", 10)
    training = member_training()
    valid = training._unlabelled.valid
    assert set(training.data.rows(valid)[0]) == set(training.relevant.users)
    assert len(training.relevant.users) == 10
