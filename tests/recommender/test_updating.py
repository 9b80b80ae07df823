"""New interactions without training: what is solved equals a fit on everything, what is learned takes what it can."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

import accord
from accord.models import SOLVED
from accord.recommender.updating import require_labels, with_solved_only
from helpers import needs_times, plan_small, small_data, with_dim


def log(seed=0, users=40, items=30, size=700):
    rng = np.random.default_rng(seed)
    pairs = sorted(
        {(int(u), int(items * p**2)) for u, p in zip(rng.integers(0, users, size), rng.random(size), strict=True)}
    )
    rows = pa.table({"user": [f"u{u}" for u, _ in pairs], "item": [f"i{i}" for _, i in pairs]})
    return rows.take(rng.permutation(len(rows)))


ROWS = log()
OLD, NEW = ROWS.slice(0, len(ROWS) - 90), ROWS.slice(len(ROWS) - 90)
MORE = pa.concat_tables([NEW, pa.table({"user": ["stranger", "stranger", "u3"], "item": ["i2", "novelty", "novelty"]})])


@pytest.mark.parametrize("model", [model.name for model in SOLVED])
def test_what_is_solved_is_what_a_fit_on_everything_gives(model, tmp_path):
    options, old, more = with_dim(model), OLD, MORE
    if needs_times(model):
        old, more = (
            part.append_column("time", pa.array(np.arange(len(part)) + n)) for n, part in ((0, OLD), (9_000, MORE))
        )
    rec = accord.fit(accord.load(old), model, options=options, out=tmp_path / "run")
    before = rec.recommend(None, 5)
    whole = accord.fit(accord.load(pa.concat_tables([old, more]), ratios=(1, 0, 0)), model, options=options)
    found = accord.Recommender.load(tmp_path / "run").update(more)
    expected = whole.recommend(None, 10)
    assert found.recommend(None, 10).equals(expected)
    assert accord.Recommender.load(found.save(tmp_path / "again")).recommend(None, 10).equals(expected)
    assert rec.recommend(None, 5).equals(before), "the other stays as it is"
    again = found.update(more)
    assert again.recommend(None, 10).equals(expected), "what it has already changes nothing"
    sizes = {"users": len(found.users), "items": len(found.items), "train": len(found.trained_on)}
    assert sizes.items() <= found.metrics["dataset"].items()
    before_it, after_it = (one.metrics["dataset"]["train"] for one in (rec, found))
    assert again.metrics["updates"] == [
        {"interactions": 93, "train": before_it}, {"interactions": 93, "train": after_it}
    ]  # fmt: skip
    measured = "mean", "std", "runs", "groups"
    assert [found.metrics[name] for name in measured] == [rec.metrics[name] for name in measured]
    assert "refit" not in found.metrics, "it has its figures, and is no second fit of the same log"
    assert "novelty" in found.recommend(None, 100).column("item").to_pylist()


def test_a_consensus_of_solved_members_too():
    members = [
        {"model": "ease", "weight": 2.0},
        {"model": "ials", "options": {"model.dim": 4}, "weight": 1.0, "seeds": 2},
    ]
    options = {"model.members": members}
    found = accord.fit(accord.load(OLD), "consensus", options=options).update(MORE)
    whole = accord.fit(accord.load(pa.concat_tables([OLD, MORE]), ratios=(1, 0, 0)), "consensus", options=options)
    assert found.recommend(None, 10).equals(whole.recommend(None, 10))


def test_a_run_that_labels_taught_is_updated_with_them(tmp_path, few_penalties):
    members = [{"model": "ease", "weight": 1.0}]
    members.append({"model": "ease", "options": {"model.clean": True}, "weight": 0.5})
    options = {"model.members": members}
    rows = accord.simulate(users=300, items=200, interactions=9000).dataset.train.table
    label = rows.column("value").combine_chunks()
    rows = rows.select(["user", "item"]).append_column("label", label)
    old, more = rows.slice(0, 4000), rows.slice(4000).select(["user", "item"])
    none = more.append_column("label", pa.nulls(len(more), pa.float64()))
    accord.fit(accord.load(old), "consensus", options=options, out=tmp_path / "run")
    found = accord.Recommender.load(tmp_path / "run").update(more).recommend(None, 10)

    def fitted(log):
        return accord.fit(accord.load(log, ratios=(1, 0, 0)), "consensus", options=options).recommend(None, 10)

    assert found.equals(fitted(pa.concat_tables([old, none])))
    assert not found.equals(fitted(rows.select(["user", "item"]))), "labels make a difference"

    old_folder = accord.Recommender.load(tmp_path / "run")  # as of versions that did not save labels
    old_folder._set_parts(old_folder.everything(), {n: p.without("label") for n, p in old_folder.parts.items()})
    with pytest.raises(accord.InputError, match="trained with labels, which its folder does not store; train again"):
        old_folder.update(more)


def test_of_a_pair_that_comes_again_the_new_weight_counts():
    weights, columns = np.random.default_rng(0).uniform(0.1, 5, (2, len(OLD))), {"weight": "weight"}
    old, new = (OLD.append_column("weight", pa.array(one)) for one in weights)
    rec = accord.fit(accord.load(old, columns=columns), "ease")
    whole = accord.fit(accord.load(new, columns=columns, ratios=(1, 0, 0)), "ease")
    assert rec.update(new, columns=columns).recommend(None, 5).equals(whole.recommend(None, 5))


def test_learned_members_are_trained_again_or_go_on_without_their_votes():
    """Trained again on everything, for as many epochs as before: what a fit on all of it gives."""
    members = [{"model": "ease", "weight": 2.0}, {"model": "mf", "method": "normal", "weight": 1.0, "epochs": 2}]
    rec = accord.fit(accord.load(OLD), "consensus", options={"model.members": members})
    found = rec.update(MORE)
    whole = accord.load(pa.concat_tables([OLD, MORE]), ratios=(1, 0, 0))
    expected = accord.fit(whole, "consensus", options={"model.members": found.run.config.model_options["members"]})
    assert found.recommend(None, 10).equals(expected.recommend(None, 10))
    found = rec.update(MORE, without_learned=True)
    assert [member.model for member in found.run.members] == ["ease"]
    only = [{"model": "mf", "method": "normal", "weight": 1.0}]
    rec = accord.fit(accord.load(OLD), "consensus", options={"model.members": only}, epochs=1)
    with pytest.raises(accord.InputError, match="all members of this consensus are learned"):
        rec.update(MORE, without_learned=True)


def test_the_quality_of_items_alone_does_not_go_on():
    def run(*models):
        members = [{"model": model} | ({"method": "normal"} if model == "mf" else {}) for model in models]
        return plan_small("consensus", "normal", (3,), model__members=members)

    assert [one.model for one in with_solved_only(run("mf", "quality", "ease")).members] == ["quality", "ease"]
    for models in (("mf",), ("mf", "quality")):
        with pytest.raises(accord.InputError, match="all members of this consensus are learned; train it again"):
            with_solved_only(run(*models))


@pytest.mark.parametrize("model", ["cdae", "lightgcn"])
def test_learned_models_that_read_histories_take_longer_ones(model, tmp_path):
    rec = accord.fit(accord.load(OLD), model, "normal", epochs=3, seeds=2, options={"model.dim": 8})
    known = set(rec.items.ids.to_pylist())
    rows = [row for row in MORE.to_pylist() if row["item"] in known]
    found = rec.update(pa.Table.from_pylist(rows))
    assert len(found.users) == len(rec.users) + 1
    had = {row["item"] for row in rows if row["user"] == "stranger"}
    lists = found.recommend(["stranger"], 10)
    assert set(lists.column("source").to_pylist()) == {"model"}
    assert not had & set(lists.column("item").to_pylist())
    again = accord.Recommender.load(found.save(tmp_path / "run"))
    assert again.recommend(None, 10).equals(found.recommend(None, 10))
    untouched = sorted(set(OLD.column("user").to_pylist()) - {row["user"] for row in rows})
    assert untouched
    kept = [r.recommend(untouched, 100).sort_by([("user", "ascending"), ("item", "ascending")]) for r in (rec, found)]
    if model == "cdae":  # of which the new pairs change the norms of some items
        scores = [np.asarray(table.column("score")) for table in kept]
        assert np.corrcoef(*scores)[0, 1] > 0.99
        target, row = found.method.target, found.users.rows(["stranger"])[0]
        history = torch.from_numpy(found.items.rows(sorted(had)))
        with torch.inference_mode():
            torch.testing.assert_close(target.score_all(torch.tensor([row]))[:, 0], target.fold_in(history))
    with pytest.raises(accord.InputError, match=r"1 item\(s\) are new, as 'novelty'; train again"):
        rec.update(MORE)


def test_other_learned_models_need_a_training():
    rec = accord.fit(accord.load(OLD), "mf", "normal", epochs=1)
    with pytest.raises(accord.InputError, match=r"^mf [+] normal has learned a vector for each user"):
        rec.update(NEW)


def test_ids_are_of_the_kind_of_the_run():
    numbers = pa.table({"user": [int(u[1:]) for u in OLD["user"].to_pylist()], "item": OLD["item"]})
    rec = accord.fit(accord.load(numbers), "popularity")
    found = rec.update(pa.table({"user": ["7", "999"], "item": ["i1", "i2"]}))
    assert found.users.ids.type == pa.int64()
    assert 999 in found.users.ids.to_pylist()
    with pytest.raises(accord.InputError, match=r"user ids of this run are whole numbers, and .* 'ann'"):
        rec.update(pa.table({"user": ["7", "ann"], "item": ["i1", "i2"]}))
    with pytest.raises(accord.InputError, match=r"user ids of this run are whole numbers, and .* 'ann'"):
        rec.update(pa.table({"user": ["ann"], "item": ["i1"]}))
    with pytest.raises(accord.InputError, match=r"user ids of this run are whole numbers, and .* '07'"):
        rec.update(pa.table({"user": ["7", "07"], "item": ["i1", "i2"]}))
    texts = accord.fit(accord.load(OLD), "popularity").update(pa.table({"user": [5, 6], "item": ["i1", "i2"]}))
    assert {"5", "6"} <= set(texts.users.ids.to_pylist())


def test_titles_stay_and_new_ones_come():
    items = pa.table({"id": [f"i{n}" for n in range(30)], "title": [f"Film {n}" for n in range(30)]})
    rec = accord.fit(accord.load(OLD, items=items), "popularity")
    found = rec.update(MORE)
    assert found.titles(["i3", "novelty"]).to_pylist() == ["Film 3", None]
    more = pa.table({"id": ["i3", "novelty"], "title": ["Film 3", "New"]})
    assert rec.update(MORE, items=more).titles(["i3", "novelty"]).to_pylist() == ["Film 3", "New"]


def test_times_are_needed_where_histories_fade():
    timed = OLD.append_column("time", pa.array(np.arange(len(OLD))))
    rec = accord.fit(accord.load(timed), "ease", options={"model.l2": 20, "model.recency": 5})
    with pytest.raises(accord.InputError, match="fade with time"):
        rec.update(MORE)
    late = MORE.append_column("time", pa.array(np.arange(len(MORE)) + 10_000))
    whole = accord.load(pa.concat_tables([timed, late]), ratios=(1, 0, 0))
    expected = accord.fit(whole, "ease", options={"model.l2": 20, "model.recency": 5}).recommend(None, 5)
    assert rec.update(late).recommend(None, 5).equals(expected)
    plain = accord.fit(accord.load(timed), "ease", options={"model.l2": 20}).update(MORE)
    assert not plain.trained_on.has_time


def test_times_that_the_log_has_not_are_left_out():
    late = MORE.append_column("time", pa.array(np.arange(len(MORE))))
    assert "time" not in accord.fit(accord.load(OLD), "popularity").update(late).trained_on.names


def test_labels_are_needed_where_they_taught_a_member():
    cleaned, plain = (
        plan_small("consensus", "normal", (3,), model__members=[{"model": "ease", "options": {"model.clean": clean}}])
        for clean in (True, False)
    )
    without = small_data()
    with_some = accord.load(OLD.append_column("label", pa.array(np.arange(len(OLD)) % 2)))
    require_labels(cleaned, with_some)
    require_labels(plain, without)
    with pytest.raises(accord.InputError, match="trained with labels, which its folder does not store"):
        require_labels(cleaned, without)
