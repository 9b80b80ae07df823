"""How a consensus is trained: its members one by one, and their votes weighed on the validation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from accord.consensus import search, training
from accord.consensus.families import FAMILIES, plan_search
from accord.data.load import load
from accord.errors import InputError
from accord.fitting import fit
from accord.training import stack
from helpers import dataset, small_data

EASE, POPULAR = {"model": "ease"}, {"model": "popularity"}
BROKEN = {"model": "ials", "options": {"model.dim": 8, "model.penalty": 1e-30, "model.alpha": 1e-30}}


def made_of(*members, data=None, **more):
    return fit(data or small_data(), "consensus", options={"model.members": list(members)}, device="cpu", **more)


def test_weights_that_are_not_given_are_chosen_and_written_down():
    made = made_of(EASE, POPULAR)
    members = made.run.config.model_options["members"]
    assert [member["model"] for member in members if member["weight"] > 0] == [member["model"] for member in members]
    assert sum(member["weight"] for member in members) == pytest.approx(1, abs=1e-3)
    again = fit(small_data(), "consensus", options={"model.members": members}, device="cpu")
    assert again.metrics["mean"] == made.metrics["mean"], "the recipe gives the same again"
    assert {entry["model"] for entry in made.metrics["members"]} == {"ease", "popularity"}
    assert all(0 <= entry["test_ndcg@20"] <= 1 for entry in made.metrics["members"])


def test_a_member_that_fails_is_left_out_with_a_sentence():
    made = made_of(EASE, BROKEN)
    assert [member["model"] for member in made.run.config.model_options["members"]] == ["ease"]
    (note,) = made.metrics["notes"]
    assert note.startswith("ials is left out: ials cannot be fitted")


def test_where_all_fail_it_is_an_error():
    with pytest.raises(InputError, match=r"^no member of the consensus could be trained: ials is left out: "):
        made_of(BROKEN)


def test_without_validation_votes_are_equal_and_that_is_said():
    data = small_data()
    pairs = list(zip(*data.rows(data.train), strict=True))
    held = list(zip(*data.rows(data.test), strict=True))
    bare = dataset(len(data.users), len(data.items), pairs, (), held)
    made = made_of(EASE, POPULAR, data=bare)
    assert [member["weight"] for member in made.run.config.model_options["members"]] == [1, 1]
    assert "there is no validation to choose votes by, so all members have the same." in made.metrics["notes"]


def test_a_learned_member_keeps_the_epochs_that_were_best():
    learned = {"model": "mf", "method": "normal", "options": {"model.dim": 4, "train.patience": 1}, "seeds": 2}
    given = made_of(EASE | {"weight": 1.0}, learned | {"weight": 1.0}, epochs=4)
    first, second = given.run.config.model_options["members"]
    assert "epochs" not in first
    assert 1 <= second["epochs"] <= 4


def test_a_learned_member_keeps_its_epochs_through_every_fit_of_a_log_with_times(monkeypatch):
    """It is fitted three times: on train, with the validation, and on everything."""
    rng = np.random.default_rng(0)
    log = pd.DataFrame({"user": rng.integers(0, 60, 1500), "item": rng.integers(0, 40, 1500)}).drop_duplicates()
    log["time"] = rng.permutation(len(log))
    epochs, train_stack = [], stack.train_stack

    def watched(data, run, *rest, **more):
        trained, states = train_stack(data, run, *rest, **more)
        epochs.extend(state.epoch for state in states if run.config.model == "mf")
        return trained, states

    monkeypatch.setattr(stack, "train_stack", watched)
    members = [{"model": "mf", "method": "normal", "weight": 0.5}, {"model": "popularity", "weight": 0.5}]
    made = fit(log, "consensus", options={"model.members": members, "train.patience": 1})
    best = made.run.members[0].epochs
    assert epochs == [best + 1, best, best], "the first goes on until it gets no better"


def test_members_that_know_order_or_fade_do_not_last(monkeypatch):
    asked = []
    monkeypatch.setattr(training, "lasting_too", lambda votes, weights, lasting: asked.append(lasting) or weights)
    log = pd.DataFrame({"user": np.arange(600) % 30, "item": np.arange(600) // 30 + np.arange(600) % 7})
    log["time"] = np.arange(600)
    fading = EASE | {"options": {"model.recency": 3}}
    fit(log, "consensus", options={"model.members": [EASE, fading, {"model": "slist"}, POPULAR]}, device="cpu")
    assert asked[0] == [True, False, False, False], "and popularity is no taste"


def test_of_a_model_whose_weights_are_too_much_for_a_folder_the_largest_stay_in_half_of_what_it_may_take(monkeypatch):
    whole = fit(small_data(), "ease", device="cpu", refit=False)
    monkeypatch.setattr(training, "most_bytes", lambda _: 4_000)
    some = fit(small_data(), "ease", device="cpu", refit=False)
    weight, values = whole.method.state_dict()["target.weight"], some.method.state_dict()["target.values"]
    assert 4 * len(values) == 4_000 / 2
    largest = weight.abs().flatten().topk(len(values)).values
    torch.testing.assert_close(values.abs().sort(descending=True).values, largest, rtol=1e-3, atol=0)


def test_what_a_run_may_take_follows_from_its_log(monkeypatch):
    small, large = small_data(), load("demo")
    assert training.most_bytes(small) == 2**25, "no vote of a small log is dropped"
    monkeypatch.setattr(training, "SMALL", 2**19)
    assert 15 * 10 * 40_000 < training.most_bytes(large) < 20 * 11 * 40_000
    many = replace(large, train=large.train, valid=range(10**8))
    assert training.most_bytes(many) < 2e8


def test_one_member_stays_however_little_a_folder_may_take(monkeypatch):
    monkeypatch.setattr(search, "plan_search", partial(plan_search, families=FAMILIES[1:2]))
    monkeypatch.setattr(training, "most_bytes", lambda _: 10)
    made = fit(small_data(), options={"model.budget": 0.5}, device="cpu", refit=False)
    assert [member.model for member in made.run.members] == ["ease"]
