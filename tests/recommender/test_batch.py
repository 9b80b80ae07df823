"""Lists for everybody: the same as for each, streamed, in parts, and by an index."""

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
from accord.recommender import approximate, batch
from accord.recommender.batch import Part, write_lists
from accord.recommender.recommender import Recommender
from helpers import small_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}, out=folder)
    return folder


@pytest.fixture(scope="module")
def recommender(run: Path) -> Recommender:
    return Recommender.load(run)


def invoke(*arguments: str | Path, **environment: str) -> Any:
    return CliRunner().invoke(app, ["recommend", *map(str, arguments)], env=environment)


def test_a_file_holds_what_is_recommended(tmp_path: Path, recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "GROUP_ROWS", 100)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 7 * 4 * 40)  # seven users at once
    assert write_lists(recommender, tmp_path / "lists.parquet", 5, Part()) == 60
    written = pq.ParquetFile(tmp_path / "lists.parquet")
    assert written.read().equals(recommender.recommend(None, 5).combine_chunks())
    assert written.num_row_groups == 3  # 300 rows, of 15 or so blocks


def test_parts_in_order_are_everybody(tmp_path: Path, run: Path) -> None:
    whole = tmp_path / "whole.parquet"
    assert invoke(run, "--all", "--k", "5", "--out", whole).exit_code == 0
    for number in range(1, 8):
        done = invoke(run, "--all", "--k", "5", "--part", f"{number}/7", "-o", tmp_path / f"{number}.parquet")
        assert done.exit_code == 0, done.output
    parts = [pq.read_table(tmp_path / f"{number}.parquet") for number in range(1, 8)]
    assert pa.concat_tables(parts).combine_chunks().equals(pq.read_table(whole).combine_chunks())
    assert {part.num_rows for part in parts} == {40, 45}


def test_ranks_write_a_folder_of_parts(tmp_path: Path, run: Path) -> None:
    for rank in range(2):
        done = invoke(run, "--all", "--k", "5", "--out", tmp_path / "lists.parquet", RANK=str(rank), WORLD_SIZE="2")
        assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "lists.parquet").iterdir()) == [
        "part-00001-of-00002.parquet",
        "part-00002-of-00002.parquet",
    ]
    invoke(run, "--all", "--k", "5", "--out", tmp_path / "whole.parquet")
    assert pq.read_table(tmp_path / "lists.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))


def test_a_file_is_whole_or_not_there(tmp_path: Path, recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "GROUP_ROWS", 10)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 4 * 40)

    def stop(done: int, total: int) -> None:
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lists(recommender, tmp_path / "lists.parquet", 5, Part(), watch=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--all", "--out", "x.parquet", "--part", "0/3"], "--part '0/3': write it as 2/8"),
        (["--all", "--out", "x.parquet", "--part", "4/3"], "--part '4/3': write it as 2/8"),
        (["--all", "--out", "x.parquet", "--part", "half"], "--part 'half': write it as 2/8"),
        (["--all", "--part", "1/3"], "--part goes with --all and a Parquet file"),
        (["--user", "u1", "--approximate"], "--approximate goes with --all and a Parquet file"),
        (["--all", "--out", "x.parquet", "--k", "0"], "--k is 0"),
        (["--all", "--format", "parquet"], "needs a file"),
        (["--all", "--format", "xml"], "unknown format"),
    ],
)
def test_mistakes(run: Path, arguments: list[str], told: str) -> None:
    done = invoke(run, *arguments)
    assert isinstance(done.exception, InputError)
    assert told in str(done.exception)
    assert not Path("x.parquet").exists()


def test_a_file_where_ranks_need_a_folder(tmp_path: Path, run: Path) -> None:
    (tmp_path / "lists.parquet").touch()
    done = invoke(run, "--all", "--out", tmp_path / "lists.parquet", RANK="0", WORLD_SIZE="2")
    assert "several ranks write a folder" in str(done.exception)


# --- by an index


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
    found = pa.concat_tables(many_items.recommend_in_blocks(None, 20, rank=index.rank))
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
    monkeypatch.setattr(approximate, "DEEPEST", 5)
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
    monkeypatch.setattr(approximate, "ALIKE", 1)
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


def test_usearch_is_asked_for_in_a_sentence(recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "usearch.index", None)
    with pytest.raises(InputError, match=r"pip install 'accord\[approximate\]'"):
        approximate.Nearest(recommender.lists)
