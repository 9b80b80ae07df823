"""Recommendations for all users: the same as for each, streamed, in parts, and by an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from accord.cli.app import app
from accord.errors import InputError
from accord.recommender import batch
from accord.recommender.batch import Part, write_lists
from accord.recommender.recommender import Recommender


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["recommend", *map(str, arguments)])


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


def test_a_file_is_whole_or_not_there(tmp_path: Path, recommender: Recommender, monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "GROUP_ROWS", 10)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 4 * 40)

    def stop(done: int, total: int) -> None:
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lists(recommender, tmp_path / "lists.parquet", 5, Part(), on_progress=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--all", "--out", "x.parquet", "--part", "0/3"], "part='0/3': write it as 2/8"),
        (["--all", "--out", "x.parquet", "--part", "4/3"], "part='4/3': write it as 2/8"),
        (["--all", "--out", "x.parquet", "--part", "half"], "part='half': write it as 2/8"),
        (["--all", "--part", "1/3"], "--part goes with --all and a Parquet file"),
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
