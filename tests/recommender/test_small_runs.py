"""A run folder is small beside its log, and gives the figures and lists of what it stores."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch

import accord
from accord.consensus import training
from accord.consensus.families import FAMILIES, plan_search
from accord.models import base, histories
from accord.models.base import compact


@pytest.fixture
def log(tmp_path):
    """A sparse log of 20,000 interactions of 3,000 users with 1,500 items in groups."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, 3_000, 20_000)
    groups = np.where(rng.random(20_000) < 0.8, users % 50, rng.integers(0, 50, 20_000))
    items = groups * 30 + (30 * rng.random(20_000) ** 2).astype(int)
    path = tmp_path / "log.csv"
    pyarrow.csv.write_csv(pa.table({"user": users + 10_000, "item": items + 10_000}), path)
    return path


@pytest.mark.parametrize("model", ["ease", "graph-filter", "item-knn", "sparse-ease"])
def test_a_run_takes_at_most_twenty_times_its_log(tmp_path, log, model):
    made = accord.fit(
        log, model, options={"model.factors": 32} if model == "graph-filter" else None, out=tmp_path / "run"
    )
    size = sum(file.stat().st_size for file in (tmp_path / "run").iterdir())
    assert size < 20 * log.stat().st_size
    loaded = accord.Recommender.load(tmp_path / "run")
    assert loaded.recommend(None, 10).equals(made.recommend(None, 10))
    assert loaded.evaluate().mean()[0] == pytest.approx(made.metrics["runs"][0]["metrics"])
    some = loaded.items.ids[:3]
    assert loaded.similar(some, 5).equals(made.similar(some, 5))
    history = {"new": some.to_pylist()}
    assert loaded.recommend(["new"], 5, history=history).equals(made.recommend(["new"], 5, history=history))
    best = loaded.recommend(loaded.users.ids[:5], 1)
    reasons = loaded.explain(best["user"], best["item"], most=1_000)
    added = reasons.group_by("user").aggregate([("value", "sum")])
    total = dict(zip(added["user"].to_pylist(), added["value_sum"].to_pylist(), strict=True))
    for user, score in zip(best["user"].to_pylist(), best["score"].to_pylist(), strict=True):
        assert total[user] >= score - 1e-3  # reasons that speak against an item are left out


def test_what_is_stored_recommends_as_well_as_what_was_fitted(log, monkeypatch):
    """The figures are those of what is stored; without leaving anything out they would be the same within .1%."""
    stored = accord.fit(log, "ease", refit=False)
    assert stored.method.target.weight is None  # sparse
    monkeypatch.setattr(base, "EXACT", 10**9)
    monkeypatch.setattr(histories, "EXACT", 10**9)
    monkeypatch.setattr(training, "most_bytes", lambda data: 10**9)
    exact = accord.fit(log, "ease", refit=False)
    assert exact.method.target.weight is not None
    assert stored.metrics["mean"]["ndcg@20"] == pytest.approx(exact.metrics["mean"]["ndcg@20"], rel=1e-3)


def test_what_was_evaluated_is_stored_where_asked_for(log, tmp_path):
    one = accord.fit(log, "popularity", out=tmp_path / "one", ks=[5, 10])
    both = accord.fit(log, "popularity", out=tmp_path / "both", ks=[5, 10], refit=True)
    assert not (tmp_path / "one" / "model.safetensors").exists()
    loaded, whole = (accord.Recommender.load(tmp_path / name) for name in ("one", "both"))
    assert loaded.evaluate().mean() == whole.evaluate().mean() == one.evaluate().mean()
    assert loaded.evaluate(ks=[5]).per_user.keys() == whole.evaluate(ks=[5]).per_user.keys()
    assert whole.evaluate(ks=[3]).mean() == both.evaluate(ks=[3]).mean()
    with pytest.raises(accord.InputError, match=r"the metrics at 5, 10; give one of these, or train with refit=True"):
        loaded.evaluate(ks=[3])
    loaded.save(tmp_path / "both", overwrite=True)
    again = accord.Recommender.load(tmp_path / "both")
    assert again.evaluate().mean() == loaded.evaluate().mean()
    assert again.recommend(None, 3).equals(whole.recommend(None, 3))


def test_large_tables_are_rounded_before_they_are_evaluated(log, monkeypatch, tmp_path):
    monkeypatch.setattr(base, "EXACT", 1_000)
    made = accord.fit(log, "ials", options={"model.dim": 8}, refit=False, out=tmp_path / "run")
    tables = [table for table in made.method.state_dict().values() if table.numel() > 1_000]
    assert tables
    assert all(torch.equal(table, table.half().float()) for table in tables)
    assert accord.Recommender.load(tmp_path / "run").evaluate().mean() == made.evaluate().mean()


def coats():
    """A log of few interactions of few users with few items, whose dense weights are large beside it."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 120, 1_500), (200 * rng.random(1_500) ** 2).astype(int)
    return accord.load(
        pa.table({"user": users, "item": np.where(rng.random(1_500) < 0.7, items // 5 * 5 + users % 5, items)})
    )


def test_several_runs_are_stored_as_they_were_evaluated(tmp_path):
    made = accord.fit(coats(), "ials", seeds=2, options={"model.dim": 4}, out=tmp_path / "run")
    loaded = accord.Recommender.load(tmp_path / "run")
    assert loaded.evaluate().mean() == made.evaluate().mean()
    assert loaded.recommend(None, 3).equals(made.recommend(None, 3)), "of the better one, fitted again on everything"


def test_what_votes_in_auto_fits_into_a_run_folder(monkeypatch, tmp_path):
    """What takes most is left out of the vote until the rest fits, whatever the search has found."""
    families = [one for one in FAMILIES if one.name in ("popularity", "ease", "item-knn", "gf-cf")]
    monkeypatch.setattr("accord.consensus.search.plan_search", partial(plan_search, families=families))
    sizes = {}
    for most in (10**9, 60_000):
        monkeypatch.setattr(training, "most_bytes", lambda _, most=most: most)
        made = accord.fit(coats(), budget=3, out=tmp_path / str(most))
        sizes[most] = (tmp_path / str(most) / "refit.safetensors").stat().st_size
        assert accord.Recommender.load(tmp_path / str(most)).recommend(None, 3).equals(made.recommend(None, 3))
    assert sizes[60_000] < 75_000 < sizes[10**9]


def test_weights_beyond_what_may_be_stored_are_the_smallest(log):
    """Dense ones and sparse ones, and small tables are rounded then."""
    for model in ("ease", "item-knn"):
        made = accord.fit(log, model, refit=False).method
        before = made.target.weights.toarray()
        compact(made, 2_000)
        after = made.target.weights.toarray()
        left = after != 0
        assert 1_900 < left.sum() <= 2_001
        assert np.abs(before[~left]).max() <= np.abs(before[left]).min()
        assert after[left] == pytest.approx(before[left], rel=1e-3)
