"""Recommendations for all users: the same as for each, streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from accord.cli.app import app
from accord.errors import InputError
from accord.recommender import batch
from accord.recommender.batch import write_lists
from accord.recommender.recommender import Recommender


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["recommend", *map(str, arguments)])


def test_a_file_holds_what_is_recommended(tmp_path: Path, recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "GROUP_ROWS", 100)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 7 * 4 * 40)  # seven users at once
    assert write_lists(recommender, tmp_path / "lists.parquet", 5) == 60
    written = pq.ParquetFile(tmp_path / "lists.parquet")
    assert written.read().equals(recommender.recommend(None, 5).combine_chunks())
    assert written.num_row_groups == 3  # 300 rows, of 15 or so blocks


def test_a_file_is_whole_or_not_there(tmp_path: Path, recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "GROUP_ROWS", 10)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 4 * 40)

    def stop(done: int, total: int) -> None:
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lists(recommender, tmp_path / "lists.parquet", 5, on_progress=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
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
