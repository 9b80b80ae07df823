"""Lists by an index of item vectors: nearly all of the exact ones, and never shorter."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from accord.cli.app import app
from accord.data.simulate import simulate
from accord.errors import InputError
from accord.fitting import fit
from accord.recommender import approximate
from accord.recommender.recommender import Recommender
from helpers import small_data


def invoke(*arguments: str | Path, **environment: str) -> Any:
    return CliRunner().invoke(app, ["recommend", *map(str, arguments)], env=environment)


@pytest.fixture(scope="module")
def many_items() -> Recommender:
    pytest.importorskip("usearch")
    data = simulate(users=300, items=3000, interactions=9000, seed=1, liked=0.1).dataset
    return fit(data, "gmf", "normal", epochs=3, options={"model.dim": 8, "train.early_stop": False})


def test_an_index_finds_nearly_all(many_items: Recommender) -> None:
    index = approximate.Nearest(many_items.lists)
    recall, users = index.recall(20)
    assert users == int((many_items.train.counts > 0).sum())
    assert recall > 0.95
    exact = many_items.recommend(None, 20)
    found = pa.concat_tables(many_items.lists_in_blocks(many_items.users.ids, 20, rank=index.rank))
    assert found.num_rows == exact.num_rows  # nobody gets fewer
    pairs = [set(zip(*(table.column(name).to_pylist() for name in ("user", "item")), strict=True))
             for table in (exact, found)]  # fmt: skip
    warm = many_items.users.take(np.flatnonzero(many_items.train.counts))
    of_warm = {pair for pair in pairs[0] if pair[0] in set(warm.to_pylist())}
    assert len(of_warm & pairs[1]) / len(of_warm) == pytest.approx(recall)  # what is said of it is so
    seen = many_items.seen
    rows = many_items.users.rows(found.column("user")), many_items.items.rows(found.column("item"))
    assert not seen.contains(*rows).any()
    both = exact.join(found, ["user", "item"], join_type="inner", right_suffix=" found")
    assert np.allclose(both.column("score"), both.column("score found"), atol=1e-5)


def test_too_few_candidates_are_mended_exactly(many_items: Recommender, monkeypatch: Any) -> None:
    """Whose nearest items are all seen gets an exact list, not a shorter one."""
    monkeypatch.setattr(approximate, "MAX_CANDIDATES", 5)
    index = approximate.Nearest(many_items.lists)
    users = np.flatnonzero(many_items.train.counts)
    scores = many_items.method.score_all(torch.from_numpy(users))[0]
    best = scores.topk(5).indices.numpy()
    seen = many_items.seen.contains(np.repeat(users, 5), best.ravel()).reshape(-1, 5)
    assert 0 < seen.any(1).sum() < len(users)
    exact = torch.cat([items[0] for _, items, _ in many_items.lists.ranker.rank(users, 5)])
    found, values = (torch.cat([part[which][0] for part in index.rank(users, 5)]) for which in (1, 2))
    assert torch.isfinite(values).all()
    same = (exact == found).all(1).numpy()
    assert same[seen.all(1)].all()
    assert same[seen.any(1)].mean() > 0.95


def test_one_user_alone_may_have_fewer_candidates_than_places(many_items: Recommender, monkeypatch: Any) -> None:
    """An index that finds three, as one with parts that do not hang together may: the list is made exactly."""
    monkeypatch.setattr(approximate, "SEARCH_BLOCK", 1)
    index = approximate.Nearest(many_items.lists)
    search = index.index.search
    monkeypatch.setattr(index, "index", SimpleNamespace(search=lambda vectors, _: search(vectors, 3)))
    users = np.flatnonzero(many_items.train.counts)[:4]
    exact = torch.cat([items[0] for _, items, _ in many_items.lists.ranker.rank(users, 5)])
    assert torch.equal(torch.cat([items[0] for _, items, _ in index.rank(users, 5)]), exact)


def test_cold_users_get_the_popular_items(many_items: Recommender) -> None:
    cold = np.flatnonzero(many_items.train.counts == 0)
    index = approximate.Nearest(many_items.lists)
    if not len(cold):
        index.cold = np.arange(len(many_items.users)) < 3
        cold = np.arange(3)
    ((_, found, _),) = index.rank(cold, 10)
    ((_, exact, _),) = many_items.lists.ranker.rank(cold, 10)
    assert found.tolist() == exact.tolist()


@pytest.mark.parametrize(("model", "method"), [("neumf", "normal"), ("ease", "normal"), ("mf", "ensemble")])
def test_models_without_vectors_are_refused(model: str, method: str) -> None:
    trained = fit(small_data(), model, method, epochs=1)
    with pytest.raises(InputError, match="needs a model whose scores are products of vectors"):
        approximate.Nearest(trained.lists)


def test_the_recall_is_printed(tmp_path: Path, run: Path) -> None:
    pytest.importorskip("usearch")
    done = invoke(run, "--all", "--approximate", "--k", "5", "--out", tmp_path / "lists.parquet")
    assert done.exit_code == 0, done.output
    assert "of the exact top 5 of 60 users are found" in done.stderr
    assert pc.max(pq.read_table(tmp_path / "lists.parquet").column("rank")).as_py() == 5


def test_where_items_are_left_out_the_others_are_scored_exactly(tmp_path: Path, run: Path) -> None:
    def lists(*words: str) -> tuple[pa.Table, str]:
        done = invoke(run, "--all", *words, "--k", "5", "--out", tmp_path / "lists.parquet")
        assert done.exit_code == 0, done.output
        return pq.read_table(tmp_path / "lists.parquet"), done.stderr

    first = str(lists()[0].column("item")[0])
    exact, said = lists("--exclude", first)
    assert "without an index" not in said
    found, said = lists("--exclude", first, "--approximate")
    assert "--exclude leaves items out, so the others are all scored, without an index" in said
    assert found.equals(exact)
    assert first not in map(str, found.column("item"))


def test_usearch_is_asked_for_in_a_sentence(recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "usearch.index", None)
    with pytest.raises(InputError, match=r"pip install 'accord\[approximate\]'"):
        approximate.Nearest(recommender.lists)
