"""What labels add to a vote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord.consensus import labels
from accord.consensus.members import MemberTraining
from accord.data.interactions import Interactions
from accord.data.simulate import simulate
from accord.fitting import fit
from accord.models.consensus import Member
from accord.recommender.recommender import Recommender
from helpers import CPU, plan_small, small_data
from logs import pushed_log

pytestmark = pytest.mark.usefixtures("few_penalties")


def labelled(share):
    """Data whose noise is known, with labels for some of the interactions."""
    data = simulate(users=120, items=90, interactions=1_900, seed=2).dataset
    value = data.train.column("value").astype(float)
    label = np.where(np.random.default_rng(0).random(len(value)) < share, value, np.nan)
    train = Interactions.of(data.train.users, data.train.items, label=pa.array(label, from_pandas=True))
    return replace(data, train=train)


def only_fields(entry):
    return {name: value for name, value in entry.items() if name in Member.model_fields}


def test_families_vote_once_more_told_what_is_real():
    found = [
        Member(model="item-knn", options={"model.k": 5}),
        Member(model="cdae", method="softmax"),
        Member(model="item-knn", options={"model.k": 9}),
        Member(model="ials", epochs=3),
        Member(model="popularity"),
    ]
    knn, ials, cdae, quality = labels.clean_members(found)
    assert knn == Member(model="item-knn", options={"model.k": 5, "model.clean": True}), "the best of its family"
    assert ials == Member(model="ials", epochs=3, by_p_real=True)
    assert cdae == Member(model="cdae", method="softmax", by_p_real=True)
    assert quality == Member(model="quality")


def test_members_learn_the_label_where_there_is_one():
    data = labelled(0.5)
    made = MemberTraining(data, plan_small("auto", "normal", (3,), data), CPU)
    learned, label = labels.learn_labels(made), made.train.columns["label"]
    known = ~np.isnan(label)
    np.testing.assert_array_equal(made.p_real[known], label[known])
    np.testing.assert_array_equal(made.p_real[~known], learned.p_real[~known])


def test_what_an_items_file_says_is_learned_from(monkeypatch):
    data, seen, plain = labelled(0.5), [], labels.estimate
    data = replace(data, item_info=pa.table({"kind": [f"kind {number % 3}" for number in range(len(data.items))]}))
    monkeypatch.setattr(labels, "estimate", lambda *given: seen.append(plain(*given)) or seen[-1])
    found = [
        labels.learn_labels(MemberTraining(one, plan_small("auto", "normal", (3,), one), CPU)).p_real
        for one in (data, replace(data, item_info=None))
    ]
    assert not np.array_equal(*found)
    assert [one.used for one in seen] == [True, True]


def test_labels_join_the_vote(tmp_path):
    found = fit(labelled(0.5), options={"model.budget": 3, "train.epochs": 3}, device="cpu", out=tmp_path / "run")
    taught = [member for member in found.run.members if member.taught]
    tried = {entry["model"] for entry in found.metrics["members"] if Member(**only_fields(entry)).taught}
    assert {"ease", "item-knn", "graph-filter", "ials", "quality"} <= tried <= {*labels.CLEANED, "quality"}
    assert sum(member.weight for member in taught) > sum(m.weight for m in found.run.members if not m.taught)
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
    assert any(member.taught for member in found.run.members)
    assert found.metrics["seconds"]["labels"] > 0


def test_one_label_in_a_hundred_is_worth_most_of_all_where_most_exposures_are_disliked():
    """Popular items are the worst there, so that a noisy validation would choose what recommends them."""
    data = pushed_log(500, 240, 30)
    some = data
    for name in ("train", "valid"):
        part = getattr(data, name)
        given = np.random.default_rng(len(part)).random(len(part)) < 0.01
        label = pa.array(part.column("label"), mask=~given)
        some = replace(some, **{name: part.without("label").with_column("label", label)})
    written = [{"model": "popularity"}, {"model": "ease"}]
    taught = [{"model": "ease", "options": {"model.clean": True}}, {"model": "quality"}]
    none = replace(data, train=data.train.without("label"), valid=data.valid.without("label"))
    reached = []
    for one, members in ((data, written + taught), (some, written + taught), (none, written)):
        found = fit(one, "consensus", options={"model.members": members}, device="cpu", refit=False)
        reached.append(found.metrics["mean"]["ndcg@20"])
    assert reached[1] > 0.6 * reached[0] > 3 * reached[2]


def test_the_validation_counts_for_how_real_it_is():
    data = labelled(0.5)
    value = data.valid.column("value")
    given = (value == 1) & (np.arange(len(value)) % 4 > 0)
    data = replace(
        data, valid=data.valid.with_column("label", pa.array(np.where(given, 1.0, np.nan), from_pandas=True))
    )
    made = MemberTraining(data, plan_small("auto", "normal", (3,), data), CPU)
    assert made.relevant.gains is None
    made = MemberTraining(data, plan_small("auto", "normal", (3,), data), CPU)
    labels.learn_labels(made)
    assert "labels tell real from noise with an AUC of" in made.notes[-1]
    pairs, gains = made.relevant.pairs, made.relevant.gains
    kept, users = data.csr(data.valid, columns=("value", "label")), pairs.users
    value, label = (kept.columns[name][kept.contains(users, pairs.items)] for name in ("value", "label"))
    assert gains[value == 1].mean() > 1.3 * gains[value == 0].mean()
    real = label == 1
    assert np.bincount(users[real]).max() > 1
    for user in np.unique(users[real]):
        own = gains[real & (users == user)]
        np.testing.assert_allclose(own, own[0], err_msg="what is labelled as real is no less so by what others say")


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
    few = labelled(0.01)
    none = replace(few, train=Interactions.of(few.train.users, few.train.items))
    found, without = (fit(data, options={"model.budget": 0.3}, device="cpu") for data in (few, none))
    assert found.run.config == without.run.config
    assert found.metrics["mean"] == without.metrics["mean"]
    assert any("too few to learn from" in note for note in found.metrics["notes"])
