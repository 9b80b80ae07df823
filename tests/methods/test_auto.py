"""The search for a consensus: what it tried, what it chose, and that it gives the same again."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
import torch

import accord.methods.auto as auto
from accord.data.interactions import Interactions
from accord.data.simulate import simulate
from accord.data.split import split
from accord.fitting import fit
from accord.models.consensus import Member
from accord.recommender.recommender import Recommender
from accord.training.callbacks import Callback
from helpers import small_data


@pytest.fixture(scope="module")
def made():
    return fit(small_data(), "auto", options={"model.budget": 2}, device="cpu")


def test_it_becomes_a_consensus_that_can_be_given_again(made, tmp_path):
    config = made.run.config
    assert config.model == "consensus"
    again = fit(small_data(), "consensus", options={"model.members": config.model_options["members"]}, device="cpu")
    assert again.metrics["mean"] == made.metrics["mean"]
    loaded = Recommender.load(made.save(tmp_path / "run"))
    assert loaded.recommend(None, 3).equals(made.recommend(None, 3))


def test_it_says_what_it_tried(made):
    search, members = made.metrics["search"], made.metrics["members"]
    assert search["budget"] == 2
    assert search["cost_seconds"] <= 2
    assert {entry["model"] for entry in members} == {entry["model"] for entry in search["tried"]}
    for entry in members:
        own = [one["valid_ndcg@20"] for one in search["tried"] if one["model"] == entry["model"]]
        assert len(own) <= search["trials"]
        assert entry["valid_ndcg@20"] == max(own), "the best of its family"
    assert {entry["model"] for entry in members if entry.get("weight")} == {
        member["model"] for member in made.run.config.model_options["members"]
    }


class Plans(Callback):
    def __init__(self):
        self.said = []

    def on_epoch(self, progress):
        self.said.append(progress.plan)


def test_the_same_search_gives_the_same_result(made):
    plans = Plans()
    again = fit(small_data(), options={"model.budget": 2}, device="cpu", callbacks=[plans])  # auto is the default
    assert plans.said[0].startswith("auto tries popularity, ease")
    assert not any(plans.said[1:]), "what it will do is said once, before anything is done"
    assert again.run.config == made.run.config
    assert again.metrics["mean"] == made.metrics["mean"]


def test_it_is_no_worse_than_its_members_on_validation(made):
    assert made.metrics["runs"][0]["valid_ndcg@20"] >= max(m["valid_ndcg@20"] for m in made.metrics["members"]) - 1e-6


def test_the_clock_ends_only_what_runs_far_over(monkeypatch):
    clock = count(0, 100)  # seconds a call
    monkeypatch.setattr(auto.time, "monotonic", lambda: float(next(clock)))
    found = fit(small_data(), options={"model.budget": 2}, device="cpu", refit=False)
    assert [entry["model"] for entry in found.metrics["members"]] == ["popularity"]
    assert any("ran far over its budget of 2 s and was ended before ease" in note for note in found.metrics["notes"])


def test_a_family_that_fails_is_left_out(monkeypatch):
    from accord.errors import InputError
    from accord.models.ease import EASE

    def fail(*_):
        raise InputError("it is broken.")

    monkeypatch.setattr(EASE, "fit", fail)
    found = fit(small_data(), options={"model.budget": 2}, device="cpu", refit=False)
    assert "ease" not in {entry["model"] for entry in found.metrics["members"]}
    assert "ease is left out: it is broken." in found.metrics["notes"]


def labelled(share):
    """Data whose noise is known, with labels for some of the interactions."""
    data = simulate(users=250, items=120, interactions=6_000, seed=7).dataset
    value = data.train.column("value").astype(float)
    label = np.where(np.random.default_rng(0).random(len(value)) < share, value, np.nan)
    train = Interactions.of(data.train.users, data.train.items, label=pa.array(label, from_pandas=True))
    return replace(data, train=train)


def test_families_vote_once_more_told_what_is_real():
    found = [
        Member(model="popularity", weight=0.1),
        Member(model="item-knn", options={"model.k": 5}, weight=0.4),
        Member(model="item-knn", options={"model.k": 9}, weight=0.3),
        Member(model="ials"),
        Member(model="mf", method="normal", seeds=4, weight=0.5),
    ]
    knn, ials, mf, quality = auto.clean_members(found)
    assert knn == Member(model="item-knn", options={"model.k": 5, "model.clean": True}, weight=0.3, added=True)
    assert ials == Member(model="ials", by_p_real=True, weight=0.1, added=True)
    assert mf == Member(model="mf", method="normal", seeds=4, by_p_real=True, weight=0.35, added=True)
    assert quality == Member(model="quality", weight=auto.QUALITY, added=True)


def test_labels_join_the_vote(tmp_path):
    found = fit(labelled(0.2), options={"model.budget": 8, "train.epochs": 3}, device="cpu", out=tmp_path / "run")
    added = [member for member in found.run.config.model_options["members"] if member.get("added")]
    votes = {m["model"]: m["weight"] for m in reversed(found.run.config.model_options["members"][: -len(added)])}
    families = ["ease", "item-knn", "graph-filter", "ials", "mf"]
    assert {m["model"]: m["weight"] for m in added} == {
        **{name: round(0.1 + votes.get(name, 0) / 2, 4) for name in families},
        "quality": 0.2,
    }
    assert [m["model"] for m in added if m.get("options", {}).get("model.clean")] == families[:3]
    assert [m["model"] for m in added if m.get("by_p_real")] == families[3:]
    assert any("labels tell real from noise with an AUC of" in note for note in found.metrics["notes"])
    again = Recommender.load(tmp_path / "run")
    assert again.recommend(None, 5).equals(found.recommend(None, 5))
    history, items = torch.from_numpy(found.train.items[: found.train.ptr[1]]).long(), torch.arange(5)
    with torch.inference_mode():
        why = [made.method.target.contributions(history, items, 0) for made in (found, again)]
    torch.testing.assert_close(*why)


def test_labelled_validation_pairs_say_how_far_labels_are_trusted(monkeypatch):
    data = labelled(0.2)
    label = pa.array(data.valid.column("value").astype(float))
    valid = Interactions.of(data.valid.users, data.valid.items, label=label)
    asked = {"options": {"model.budget": 2, "train.epochs": 2}, "device": "cpu", "refit": False}
    for trust in (0.0, 4.0):
        monkeypatch.setattr(auto, "choose_trust", lambda sides, ranker, known, trust=trust: trust)
        found = fit(replace(data, valid=valid), **asked)
        assert any(f"worth {trust:g} times their usual vote" in note for note in found.metrics["notes"])
        votes = {member.model: member.weight for member in found.run.members if not member.added}
        added = {member.model: member.weight for member in found.run.members if member.added}
        assert set(added) <= {*auto.CLEANED, "quality"}
        assert bool(added) == bool(trust)
        for name, weight in added.items():
            usual = auto.QUALITY if name == "quality" else auto.CLEAN + auto.OF_VOTE * votes.get(name, 0)
            assert weight == pytest.approx(trust * usual, abs=1e-3)
        assert len(found.method.target.members) == len(found.run.members)


def test_what_is_labelled_as_noise_judges_no_member():
    data = small_data()
    noise = np.arange(len(data.valid)) % 3 == 0
    label = pa.array(np.where(noise, 0.0, 1.0), mask=np.arange(len(noise)) % 3 == 1)
    valid = Interactions.of(data.valid.users, data.valid.items, label=label)
    asked = {"options": {"model.budget": 1}, "device": "cpu", "refit": False}
    found, without = (
        fit(one, **asked) for one in (replace(data, valid=valid), replace(data, valid=valid.filter(~noise)))
    )
    assert found.metrics["search"]["tried"] == without.metrics["search"]["tried"]
    assert found.run.members == without.run.members
    said = f"the validation leaves out {noise.sum():,} interactions, which are labelled as noise."
    assert said in found.metrics["notes"]
    assert said not in without.metrics.get("notes", [])
    every = Interactions.of(data.valid.users, data.valid.items, label=pa.array(np.zeros(len(noise))))
    all_noise, plain = (fit(replace(data, valid=one), **asked) for one in (every, every.without("label")))
    assert all_noise.metrics["search"]["tried"] == plain.metrics["search"]["tried"], "there is nothing else to judge by"


def test_labels_that_are_too_few_change_nothing_and_that_is_said():
    few = labelled(0.003)
    none = replace(few, train=Interactions.of(few.train.users, few.train.items))
    found, without = (fit(data, options={"model.budget": 1}, device="cpu") for data in (few, none))
    assert found.run.config == without.run.config
    assert found.metrics["mean"] == without.metrics["mean"]
    assert any("too few to learn from" in note for note in found.metrics["notes"])


def walk(users=60, items=30, steps=24, seed=0):
    """Whoever took an item takes one of the next: what comes is known by what came last."""
    rng = np.random.default_rng(seed)
    places = (rng.integers(0, items, users)[:, None] + rng.integers(1, 3, (users, steps)).cumsum(1)) % items
    rows = np.repeat(np.arange(users), steps)
    log = Interactions.of(pa.array(rows), pa.array(places.ravel()), time=pa.array(np.tile(np.arange(steps), users)))
    return split(log.merged(), "chronological", (0.6, 0.2, 0.2))


def test_histories_fade_where_that_pays(tmp_path):
    found = fit(walk(), options={"model.budget": 3}, device="cpu", out=tmp_path / "run")
    tried = found.metrics["search"]["tried"]
    faded = [entry for entry in tried if "model.recency" in entry.get("options", {})]
    assert [entry["options"]["model.recency"] for entry in faded if entry["model"] == "ease"] == [30, 10, 3]
    plain = max(entry["valid_ndcg@20"] for entry in tried if entry["model"] == "ease" and entry not in faded)
    still, ease = (entry for entry in found.metrics["members"] if entry["model"] == "ease")
    assert still["valid_ndcg@20"] == plain, "which may vote beside it"
    assert ease["options"] == {**still.get("options", {}), "model.recency": 3}
    assert ease["valid_ndcg@20"] > 1.1 * plain
    voting = [*found.run.members]
    assert any("model.recency" in member.options for member in voting)
    for before, member in zip([None, *voting], voting, strict=False):
        if recency := member.options.get("model.recency"):
            assert member.options == {**before.options, "model.recency": recency}, "it never votes alone"
            assert before.weight >= member.weight
    train = {"model.budget": 3, "protocol.test_history": "train"}  # here they share their weights
    once = fit(walk(), options=train, device="cpu", refit=False, out=tmp_path / "once")
    assert once.run.config.model_options == found.run.config.model_options
    assert Recommender.load(tmp_path / "once").recommend(None, 3).equals(once.recommend(None, 3))
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.evaluate().mean() == found.evaluate().mean()
    assert loaded.recommend(None, 3).equals(found.recommend(None, 3))
    alone = [{"model": "ease", "options": ease["options"]}]
    again = fit(walk(), "consensus", options={"model.members": alone}, device="cpu", refit=False)
    assert again.metrics["runs"][0]["valid_ndcg@20"] == pytest.approx(ease["valid_ndcg@20"], abs=1e-9), "as if fitted"


def test_histories_do_not_fade_without_times(made):
    assert not any("model.recency" in entry.get("options", {}) for entry in made.metrics["search"]["tried"])
