"""What labels add to a vote."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord.consensus import labels, training
from accord.consensus.members import MemberTraining
from accord.data.interactions import Interactions
from accord.data.simulate import simulate
from accord.fitting import fit
from accord.models.consensus import Member
from accord.recommender.recommender import Recommender
from helpers import CPU, plan_small, small_data

pytestmark = pytest.mark.usefixtures("few_penalties")


def labelled(share):
    """Data whose noise is known, with labels for some of the interactions."""
    data = simulate(users=250, items=120, interactions=6_000, seed=7).dataset
    value = data.train.column("value").astype(float)
    label = np.where(np.random.default_rng(0).random(len(value)) < share, value, np.nan)
    train = Interactions.of(data.train.users, data.train.items, label=pa.array(label, from_pandas=True))
    return replace(data, train=train)


def votes_of(found):
    """The votes of each model together, of members that labels did not add."""
    votes = Counter()
    for member in found.run.members:
        votes[member.model] += 0 if member.added else member.weight
    return votes


def test_families_vote_once_more_told_what_is_real():
    found = [
        Member(model="popularity", weight=0.1),
        Member(model="item-knn", options={"model.k": 5}, weight=0.4),
        Member(model="item-knn", options={"model.k": 9}, weight=0.3),
        Member(model="ials"),
        Member(model="mf", method="normal", seeds=4, weight=0.5),
    ]
    knn, ials, mf, quality = labels.clean_members(found)
    assert knn == Member(model="item-knn", options={"model.k": 5, "model.clean": True}, weight=0.45, added=True)
    assert ials == Member(model="ials", by_p_real=True, weight=0.1, added=True)
    assert mf == Member(model="mf", method="normal", seeds=4, by_p_real=True, weight=0.35, added=True)
    assert quality == Member(model="quality", weight=labels.QUALITY, added=True)


def test_members_learn_the_label_where_there_is_one():
    data = labelled(0.2)
    made = MemberTraining(data, plan_small("auto", "normal", (3,), data), CPU)
    learned, label = labels.learn_labels(made), made.train.columns["label"]
    known = ~np.isnan(label)
    np.testing.assert_array_equal(made.p_real[known], label[known])
    np.testing.assert_array_equal(made.p_real[~known], learned.p_real[~known])


def test_labels_join_the_vote(tmp_path):
    found = fit(labelled(0.2), options={"model.budget": 3, "train.epochs": 3}, device="cpu", out=tmp_path / "run")
    added = [member for member in found.run.config.model_options["members"] if member.get("added")]
    votes = votes_of(found)
    families = ["ease", "item-knn", "graph-filter", "ials", "mf"]
    assert {m["model"]: m["weight"] for m in added} == {
        **{name: pytest.approx(0.1 + votes[name] / 2, abs=1e-4) for name in families},
        "quality": 0.2,
    }
    assert [m["model"] for m in added if m.get("options", {}).get("model.clean")] == families[:3]
    assert [m["model"] for m in added if m.get("by_p_real")] == families[3:]
    assert any("labels tell real from noise with an AUC of" in note for note in found.metrics["notes"])
    again = Recommender.load(tmp_path / "run")
    assert again.recommend(None, 5).equals(found.recommend(None, 5))
    train = found.final.train
    history, items = torch.from_numpy(train.items[: train.ptr[1]]).long(), torch.arange(5)
    with torch.inference_mode():
        why = [made.final.method.target.contributions(history, items, 0) for made in (found, again)]
    torch.testing.assert_close(*why)


def test_labels_of_pairs_outside_the_log_join_the_vote():
    table = simulate(users=250, items=120, interactions=6_000, seed=7).dataset.everything().train.table
    apart = pa.array(np.random.default_rng(0).random(len(table)) < 0.2)
    labels = table.filter(apart).select(["user", "item", "value"]).rename_columns(["user", "item", "label"])
    log = table.filter(pa.compute.invert(apart)).select(["user", "item"])
    found = fit(log, labels=labels, budget=0.2, device="cpu", refit=False)
    assert any("labels tell real from noise" in note for note in found.metrics["notes"])
    assert any(member.added for member in found.run.members)


def test_labelled_validation_pairs_say_how_far_labels_are_trusted(monkeypatch):
    data = labelled(0.2)
    label = data.valid.column("value").astype(float)
    label[::3] = 0.5  # which is neither real nor noise
    valid, real = Interactions.of(data.valid.users, data.valid.items, label=pa.array(label)), []
    asked = {"options": {"model.budget": 1.5, "train.epochs": 2}, "device": "cpu", "refit": False}
    for trust in (0.0, 4.0):
        monkeypatch.setattr(training, "choose_trust", lambda _, __, known, trust=trust: real.append(known) or trust)
        found = fit(replace(data, valid=valid), **asked)
        assert any(f"worth {trust:g} times their usual weight" in note for note in found.metrics["notes"])
        votes = votes_of(found)
        added = {member.model: member.weight for member in found.run.members if member.added}
        assert set(added) <= {*labels.CLEANED, "quality"}
        assert bool(added) == bool(trust)
        for name, weight in added.items():
            usual = labels.QUALITY if name == "quality" else labels.CLEAN + labels.OF_VOTE * votes[name]
            assert weight == pytest.approx(trust * usual, abs=1e-3)
        assert len(found.method.target.members) == len(found.run.members)
        assert len(real[-1].pairs.items) == (label == 1).sum()


def test_what_is_labelled_as_noise_judges_no_member():
    data = small_data()
    noise = np.arange(len(data.valid)) % 3 == 0
    label = pa.array(np.where(noise, 0.0, 0.5), mask=np.arange(len(noise)) % 3 == 1)  # a half says neither
    valid = Interactions.of(data.valid.users, data.valid.items, label=label)
    asked = {"options": {"model.budget": 0.3, "train.epochs": 3}, "device": "cpu", "refit": False}
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
    found, without = (fit(data, options={"model.budget": 0.3}, device="cpu") for data in (few, none))
    assert found.run.config == without.run.config
    assert found.metrics["mean"] == without.metrics["mean"]
    assert any("too few to learn from" in note for note in found.metrics["notes"])
