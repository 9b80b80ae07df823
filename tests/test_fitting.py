"""accord.fit from top to bottom: read, plan, train, evaluate, save."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord.consensus.families import FAMILIES, plan_search
from accord.data.interactions import Interactions
from accord.data.load import load
from accord.data.split import split
from accord.errors import InputError
from accord.fitting import RunContext, deterministic, fit, fit_run
from accord.io.files import only_writer
from accord.recommender.recommender import Recommender
from accord.training.callbacks import Callback
from accord.training.plan import plan
from accord.training.trainer import Diverged
from helpers import assert_same_weights, small_data
from logs import pushed_log
from ramp import spoil


def test_fit_keeps_what_did_not_diverge(monkeypatch, tmp_path):
    spoil(monkeypatch, "gmf", seed=2020)
    data = small_data()
    label = pa.array(np.ones(len(data.train)), mask=np.arange(len(data.train)) > 9)
    data = replace(data, train=data.train.with_column("label", label))
    with pytest.warns(UserWarning, match="diverged with seed 2020"):
        made = fit(data, "gmf", "normal", seeds=3, epochs=2, device="cpu", out=tmp_path / "run")
    assert [(run["seed"], run["epochs"]) for run in made.metrics["runs"]] == [(2019, 2), (2021, 2)]
    assert [entry["epoch"] for entry in made.history] == [1, 2]
    monkeypatch.undo()
    loaded = Recommender.load(tmp_path / "run")
    assert "2020" in loaded.metrics["diverged"]
    assert [note[:2] for note in loaded.metrics["notes"] if "have a label" in note] == ["10"]
    assert loaded.recommend(k=5).equals(made.recommend(k=5))


QUICK = {"model.dim": 4, "train.batch_size": 128}


class Watching(Callback):
    def __init__(self, told):
        self.told, self.said = told, []

    def on_start(self, config):
        self.said.append(config)

    def on_epoch(self, progress):
        self.told(progress)

    def on_metrics(self, metrics):
        self.said.append(metrics)


def test_a_frame_becomes_a_recommender():
    rng = np.random.default_rng(0)
    frame = pa.table({"user": rng.integers(0, 30, 600), "item": [f"i{item}" for item in rng.integers(0, 20, 600)]})
    made = fit(frame, "mf", "normal", epochs=1, device="cpu", options=QUICK, ks=[5])
    assert set(made.metrics["mean"]) == {f"{name}@5" for name in ("recall", "ndcg", "precision", "mrr", "hit_rate")}
    lists = made.recommend([7], k=3)
    assert lists.column("user").to_pylist() == [7, 7, 7]
    assert all(item.startswith("i") for item in lists.column("item").to_pylist())


def test_it_is_watched_timed_and_written(tmp_path):
    seen, folder = [], tmp_path / "run"
    watching = Watching(seen.append)
    made = fit(
        small_data(), "mf", "normal", epochs=2, seeds=[3, 5], device="cpu", options=QUICK, out=folder,
        callbacks=[watching],
    )  # fmt: skip
    assert watching.said == [made.run.config.model_dump(mode="json"), made.metrics["mean"]]
    assert [(progress.epoch, progress.epochs) for progress in seen] == [(1, 2), (2, 2)]
    assert set(made.metrics["seconds"]) == {"read", "train", "evaluate"}
    assert made.metrics["seconds"]["train"] > 0
    assert {"ranks", "diverged", "command"}.isdisjoint(made.metrics), "one process, no run lost, no command typed"
    assert json.loads((folder / "metrics.json").read_text()) == made.metrics
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        *("config.json", "items.parquet", "log.jsonl", "manifest.json", "metrics.json"),
        *("model.safetensors", "seen.parquet", "test.parquet", "users.parquet"),
    ]
    again = Recommender.load(folder)
    assert again.recommend(k=5).equals(made.recommend(k=5))
    assert [entry["epoch"] for entry in again.history] == [1, 2]


def test_a_planned_run_keeps_what_reading_took_and_what_was_typed():
    run = plan(small_data(), "popularity", seeds=1, ks=[5])
    context = RunContext(read_seconds=1.2345, command="accord train demo")
    made = fit_run(small_data(), run, device="cpu", context=context)
    assert made.metrics["seconds"]["read"] == 1.234
    assert made.metrics["command"] == "accord train demo"


def test_a_solved_model_is_fitted_by_the_same_call():
    made = fit(small_data(), "ease", seeds=3, device="cpu", ks=[5])
    (entry,) = made.metrics["runs"]
    assert (made.metrics["method"], entry["epochs"], entry["seed"]) == ("none", 0, 2019)
    assert entry["valid_ndcg@20"] > 0
    assert made.history == []


def test_mistakes_are_found_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="unknown model 'gmff'"):
        fit(small_data(), "gmff", out=tmp_path / "run")
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        fit(small_data(), "gmf", device="gpu", out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_test_in_which_nothing_is_real_is_an_error_and_no_run_without_figures():
    data = small_data()
    with pytest.raises(InputError, match=r"^the test holds no pair to evaluate on; give more data, another split or"):
        fit(replace(data, test=data.test.slice(0, 0), test_noisy=data.test), "popularity")


def test_a_folder_that_is_being_written_is_left_alone(tmp_path):
    with only_writer(tmp_path / "run"), pytest.raises(InputError, match="is being written by another process"):
        fit(small_data(), "popularity", device="cpu", out=tmp_path / "run")


def test_where_every_run_diverges_it_is_an_error(tmp_path, monkeypatch):
    spoil(monkeypatch, "gmf", seed=2019)
    with pytest.raises(Diverged, match=r"^training diverged in epoch 1"):
        fit(small_data(), "gmf", "normal", epochs=1, device="cpu", options=QUICK, out=tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_an_interrupted_training_is_resumed(tmp_path):
    settings = {"epochs": 3, "device": "cpu", "options": QUICK | {"train.checkpoint_seconds": 0}}

    def stop(progress):
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(small_data(), "mf", "normal", out=tmp_path / "run", callbacks=[Watching(stop)], **settings)
    seen = []
    told = {"callbacks": [Watching(seen.append)], "resume": True}
    resumed = fit(small_data(), "mf", "normal", out=tmp_path / "run", **told, **settings)
    assert [progress.epoch for progress in seen] == [2, 3]
    assert_same_weights(resumed.method.state_dict(), fit(small_data(), "mf", "normal", **settings).method.state_dict())


def test_deterministic_is_of_the_whole_process(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = torch.utils.deterministic.fill_uninitialized_memory
    try:
        deterministic()
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = before
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


def test_a_method_for_a_model_that_takes_none_is_refused():
    with pytest.raises(InputError, match=r"^model 'ease' is not trained with a method; leave the method deca out, or"):
        fit(small_data(), "ease", "deca")


def held_out_pairs(data):
    return {(user, item) for part in (data.train, data.valid, data.test) for user, item in pairs_of(part)}


def pairs_of(part):
    return zip(part.users.to_pylist(), part.items.to_pylist(), strict=True)


@pytest.mark.parametrize("refit", [True, False])
def test_nobody_is_shown_what_they_have_in_any_part(refit):
    data = small_data()
    made = fit(data, "ease", device="cpu", refit=refit)
    shown = made.recommend(None, 10)
    assert not held_out_pairs(data) & set(pairs_of_table(shown))
    assert ("refit" in made.metrics) == refit


def pairs_of_table(table):
    return zip(table.column("user").to_pylist(), table.column("item").to_pylist(), strict=True)


def test_what_recommends_is_fitted_on_everything_and_the_figures_are_those_of_before(tmp_path):
    data = small_data()
    made, before = fit(data, "ease", device="cpu", out=tmp_path / "run"), fit(data, "ease", device="cpu", refit=False)
    assert made.metrics["mean"] == before.metrics["mean"]
    whole = data.everything()
    assert made.metrics["refit"] == {"interactions": len(whole.training_csr().items), "alone": True}
    users = torch.arange(5)
    on_all = made.run.build(whole.training_csr())
    on_all.target.fit(whole.training_csr())
    assert torch.equal(made.lists.method.score_all(users), on_all.score_all(users))
    assert not torch.equal(made.lists.method.score_all(users), made.method.score_all(users))
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.recommend(None, 5).equals(made.recommend(None, 5))
    assert loaded.evaluate().mean() == made.evaluate().mean(), "what is evaluated again is what was evaluated"


def test_a_fit_replaces_the_run_that_its_folder_held(tmp_path):
    for model in ("ease", "popularity"):
        fit(small_data(), model, device="cpu", out=tmp_path)
    assert Recommender.load(tmp_path).run.config.model == "popularity"


def test_a_learned_model_is_fitted_again_where_it_is_asked_for(tmp_path):
    data, given = small_data(), {"model.dim": 4, "train.patience": 1}
    made = fit(data, "mf", "normal", seeds=2, options=given, epochs=3, device="cpu", out=tmp_path / "run", refit=True)
    assert len(made.lists.method.target.seeds) == 1, "the run that recommends, alone"
    assert Recommender.load(tmp_path / "run").recommend(None, 5).equals(made.recommend(None, 5))
    assert "refit" not in fit(data, "mf", "normal", options=given, epochs=1, device="cpu").metrics
    assert "refit" not in fit(data, "ease", protocol="published", device="cpu").metrics, "whose tables had none"


def test_a_refit_is_of_the_seed_that_is_best_on_the_validation():
    """Not of the first, nor of that which is best on the test."""
    given = {"options": {"model.dim": 4}, "epochs": 3, "device": "cpu", "refit": True}
    for seeds in ((2022, 2020), (2020, 2022)):
        made = fit(small_data(), "mf", "normal", seeds=seeds, **given)
        best, other = sorted(made.metrics["runs"], key=lambda run: run["seed"])
        assert best["valid_ndcg@20"] > other["valid_ndcg@20"]
        assert best["metrics"]["ndcg@20"] < other["metrics"]["ndcg@20"]
        assert made.final.run.config.seeds == (2020,)


def test_a_refit_trains_as_long_as_was_best_and_all_of_it_is_watched(monkeypatch):
    monkeypatch.setattr("accord.evaluation.evaluate.QUICK", 0)  # scores of so few users report no progress
    seen, options = [], QUICK | {"train.patience": 2, "train.lr": 0.5}
    run = plan(small_data(), "mf", "normal", seeds=1, epochs=4, options=options)
    made = fit_run(small_data(), run, device="cpu", refit=True, watch=seen.append)
    parts = [f"{one.stage}, {one.epoch} of {one.epochs} {one.unit}" for one in seen]
    number = len(made.evaluation.users)
    test = f"the test, {number} of {number} users"
    trained, again = seen[: parts.index(test)], seen[parts.index(test) + 1 :]
    best = 1 + int(np.argmax([one.value for one in trained]))
    assert 1 < best < len(trained), "neither the first nor the last"
    assert [(one.epoch, one.epochs) for one in again] == [(number, best) for number in range(1, best + 1)]
    assert not made.metrics["refit"]["alone"], "both were asked for"


def test_what_has_learned_an_order_is_judged_by_longer_histories_with_the_same_weights():
    given = {"epochs": 1, "device": "cpu"}
    made = fit(timed_log(), "sasrec", options={"model.dim": 4}, **given)
    alone = fit(timed_log(), "sasrec", options={"model.dim": 4, "protocol.test_history": "train"}, **given)
    assert made.metrics["before_validation"]["mean"] == alone.metrics["mean"] != made.metrics["mean"]
    assert_same_weights(made.method.state_dict(), alone.method.state_dict())


def test_weights_count_in_the_fit_on_everything():
    """What recommends is what is fitted on a log of which nothing is held out, with its weights."""
    rows = small_data().everything().train.table.select(["user", "item"])
    weight = pa.array(np.random.default_rng(0).uniform(0.1, 5, len(rows)))
    log, settings = rows.append_column("weight", weight), {"columns": {"weight": "weight"}, "device": "cpu"}
    found = fit(log, "ease", **settings).recommend(None, 10)
    assert found.equals(fit(load(log, columns=settings["columns"], ratios=(1, 0, 0)), "ease").recommend(None, 10))
    assert not found.equals(fit(rows, "ease", device="cpu").recommend(None, 10)), "weights make a difference"


def test_labels_count_in_the_fit_on_everything(few_penalties):
    """What recommends is taught by the labels of the whole log, held out before or not."""
    log = pushed_log(120, 60, 20, real=0.3).everything().train.table.select(["user", "item", "value"])
    settings = {"options": {"model.members": [{"model": "ease", "options": {"model.clean": True}}]}, "device": "cpu"}
    found = fit(log, "consensus", labels="value>=1", **settings).recommend(None, 10)
    whole = load(log, labels="value>=1", ratios=(1, 0, 0))
    assert found.equals(fit(whole, "consensus", **settings).recommend(None, 10))
    assert not found.equals(fit(log, "consensus", **settings).recommend(None, 10)), "labels make a difference"


def test_a_validation_of_real_pairs_alone_joins_the_histories_without_the_others():
    rows = timed_log().everything().train
    value = pa.array(np.random.default_rng(5).integers(0, 2, len(rows)))
    log = Interactions.of(rows.users, rows.items, value=value, time=pa.array(rows.column("time")))
    data = split(log, "chronological", (0.6, 0.2, 0.2), clean="value>=1")
    made = fit(data, "ease", options={"model.l2": 5, "protocol.validation": "clean"}, device="cpu")
    real, test = rows_of(data, data.train, data.valid_clean), rows_of(data, data.test)
    assert made.metrics["mean"]["ndcg@20"] == pytest.approx(ease_ndcg(real, real, test, 5), abs=1e-6)


def timed_log(kind="chronological"):
    """Every user's interactions at moments of their own; 60 users, 30 items."""
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(60), 20)
    items = np.concatenate([rng.choice(30, 20, replace=False) for _ in range(60)])
    log = Interactions.of(pa.array(users), pa.array(items), time=pa.array(rng.permutation(len(users))))
    return split(log, kind, (0.6, 0.2, 0.2))


def rows_of(data, *parts):
    """X [U, I] of parts."""
    x = np.zeros((len(data.users), len(data.items)))
    for part in parts:
        x[data.rows(part)] = 1
    return x


def ease_ndcg(history, seen, test, l2, k=20):
    """NDCG@k of EASE fitted and scored on a history [U, I]: mean over users with something in the test."""
    inverse = np.linalg.inv(history.T @ history + l2 * np.eye(history.shape[1]))
    weight = np.eye(len(inverse)) - inverse / np.diag(inverse)
    scores = np.where(seen > 0, -np.inf, history @ weight)
    found = []
    for own, wanted in zip(scores, test, strict=True):
        if wanted.any():
            hits = wanted[np.argsort(-own, kind="stable")[:k]]
            discounts = 1 / np.log2(np.arange(2, k + 2))
            found.append((hits * discounts[: len(hits)]).sum() / discounts[: int(min(wanted.sum(), k))].sum())
    return np.mean(found)


def test_what_came_before_the_test_is_history_where_there_are_times(tmp_path):
    data = timed_log()
    made = fit(data, "ease", options={"model.l2": 5}, device="cpu", out=tmp_path / "run")
    train, both, test = (rows_of(data, *parts) for parts in ([data.train], [data.train, data.valid], [data.test]))
    before = made.metrics["before_validation"]["mean"]["ndcg@20"]
    assert made.metrics["mean"]["ndcg@20"] == pytest.approx(ease_ndcg(both, both, test, 5), abs=1e-6)
    assert before == pytest.approx(ease_ndcg(train, both, test, 5), abs=1e-6)
    assert made.metrics["protocol"]["test_history"] == "train+valid"
    alone = fit(data, "ease", options={"model.l2": 5, "protocol.test_history": "train"}, device="cpu")
    assert alone.metrics["mean"]["ndcg@20"] == before != made.metrics["mean"]["ndcg@20"]
    assert made.metrics["runs"][0]["valid_ndcg@20"] == alone.metrics["runs"][0]["valid_ndcg@20"], "chosen before"
    assert made.metrics["dataset"] == alone.metrics["dataset"]
    assert {"test_history", "before_validation"}.isdisjoint({*alone.metrics, *alone.metrics["protocol"]})
    assert made.recommend(k=5).equals(alone.recommend(k=5)), "both are fitted again on everything"
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.evaluate().mean() == made.evaluate().mean() == [made.metrics["mean"]]
    assert loaded.recommend(k=5).equals(made.recommend(k=5))


@pytest.mark.parametrize(("model", "more"), [("ease", {"options": {"model.l2": 5}}), ("mf", {"epochs": 1})])
def test_a_log_split_at_a_moment_is_evaluated_split_by_the_time_of_each_user_too(model, more, monkeypatch):
    monkeypatch.setattr("accord.evaluation.evaluate.QUICK", 0)
    data, also = timed_log("global-time"), timed_log("chronological")
    made = fit_run(data, plan(data, model, **more), context=RunContext(also=also), device="cpu")
    alone = fit(also, model, **more, device="cpu").metrics
    assert made.metrics["by_user"] == {"mean": alone["mean"]}
    assert made.metrics["mean"] == fit(data, model, **more, device="cpu").metrics["mean"] != alone["mean"]


@pytest.mark.parametrize(
    ("data", "model"), [(small_data(), "ease"), (timed_log("random"), "ease"), (timed_log(), "mf")],
    ids=["no times", "a random split", "a learned model"],
)  # fmt: skip
def test_else_history_is_what_was_trained_on(data, model):
    made = fit(data, model, "normal", epochs=1, device="cpu")
    assert "before_validation" not in made.metrics
    assert "test_history" not in made.metrics["protocol"], "as in results of before"
    with pytest.raises(InputError, match=r"protocol.test_history=train\+valid is for solved models and those that"):
        fit(data, model, "normal", epochs=1, options={"protocol.test_history": "train+valid"}, device="cpu")


def test_a_consensus_is_judged_with_its_members_fitted_again(tmp_path):
    members = [{"model": "ease"}, {"model": "mf", "method": "normal", "seeds": 2, "options": {"train.epochs": 3}}]
    made = fit(timed_log(), "consensus", options={"model.members": members}, device="cpu", out=tmp_path / "run")
    assert made.metrics["before_validation"]["mean"] != made.metrics["mean"]
    assert [entry["model"] for entry in made.metrics["members"]] == ["ease", "mf"]
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.evaluate().mean() == made.evaluate().mean() == [made.metrics["mean"]]
    assert loaded.run.config == made.run.config


def test_columns_go_on_to_the_reader():
    rng = np.random.default_rng(0)
    frame = pa.table({"a": rng.integers(0, 30, 600), "b": rng.integers(0, 20, 600), "user": rng.random(600)})
    made = fit(frame, "popularity", columns={"user": "a", "item": "b"})
    assert len(made.users) <= 30
    with pytest.raises(InputError, match="already split, so columns"):
        fit(small_data(), "popularity", columns={"user": "a"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"seeds": 2.5}, "seeds is 2.5; give a whole number, or a list of them."),
        ({"options": 5}, "options is 5; write it as {'model.dim': 64}."),
        ({"callbacks": 5}, "callbacks is 5; give a list, as [MyCallback()]."),
        ({"budget": 1}, "budget= limits the search of auto; leave it or the model out."),
    ],
)
def test_mistakes_are_one_sentence(given, sentence):
    with pytest.raises(InputError) as error:
        fit(small_data(), "popularity", **given)
    assert str(error.value) == sentence


def test_a_fit_takes_labels_and_a_budget_and_says_what_each_part_took(few_penalties, monkeypatch):
    """As `accord train --labels --budget`: the same run as of options and a log that was loaded with labels."""
    monkeypatch.setattr("accord.consensus.search.plan_search", partial(plan_search, families=FAMILIES[:1]))
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 60, 900), rng.integers(0, 40, 900)
    frame = pa.table({"user": users, "item": items, "rating": rng.integers(1, 6, 900)})
    rule = "rating>=4; rating<=2"
    made = fit(frame, labels=rule, budget=0.2, device="cpu", refit=False)
    by_hand = fit(load(frame, labels=rule), "auto", options={"model.budget": 0.2}, device="cpu", refit=False)
    assert made.metrics["search"]["budget"] == 0.2
    assert made.metrics["mean"] == by_hand.metrics["mean"]
    seconds = made.metrics["seconds"]
    assert 0 < seconds["labels"] < seconds["train"]
