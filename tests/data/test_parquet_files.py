"""Parquet files as one table, with the partitions of their folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from accord.data.columns import Columns
from accord.data.parquet_files import ParquetFiles
from accord.data.read import read_table
from logs import FRAME, ROWS, rows


def test_partitions_are_columns_where_they_are_named(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"date=2021-01-0{day}").mkdir()
        pq.write_table(pa.table({"user": [1, 2], "item": [day, 7]}), tmp_path / f"date=2021-01-0{day}" / "a.parquet")
    found, notes = read_table(tmp_path)
    assert not found.has_time  # as before there were partitions
    assert "; not used: 'date'." in notes[0]
    timed, _ = read_table(tmp_path, Columns(time="date"), merge=False)
    assert rows(timed) == [(1, 1, 1609459200), (2, 7, 1609459200), (1, 2, 1609545600), (2, 7, 1609545600)]


def test_files_whose_columns_have_different_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["a", "b"], "item": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": [7, 8], "item": [1, 2]}), tmp_path / "2.parquet")
    assert rows(read_table(tmp_path)[0]) == [("a", 1), ("b", 2), ("7", 1), ("8", 2)]


def test_parquet_file_and_folder(tmp_path: Path) -> None:
    table = pa.table(FRAME)
    pq.write_table(table, tmp_path / "one.parquet")
    assert rows(read_table(tmp_path / "one.parquet")[0]) == ROWS
    folder = tmp_path / "many" / "day=1"
    folder.mkdir(parents=True)
    pq.write_table(table.slice(0, 1), folder / "a.parquet")
    pq.write_table(table.slice(1), folder / "b.parquet")
    (tmp_path / "many" / "_SUCCESS").touch()
    assert rows(read_table(tmp_path / "many")[0]) == ROWS


def test_a_column_that_some_files_lack_is_empty_there(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["a", "b"], "item": [1, 2], "rating": [5, 4]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": ["c", "a"], "item": [1, 2]}), tmp_path / "2.parquet")
    assert read_table(tmp_path)[0].table.column("value").to_pylist() == [5.0, 4.0, None, None]


def test_partitions_are_integers_where_all_are(tmp_path: Path) -> None:
    for shop in ("shop=7", "shop=12", "shop=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / shop).mkdir()
        pq.write_table(pa.table({"user": ["a"], "item": [1]}), tmp_path / shop / "a.parquet")
    files = ParquetFiles.open(sorted(tmp_path.glob("*/*.parquet")), tmp_path)
    assert files.names == ["user", "item", "shop"]
    assert files.num_rows == 3
    batches = list(files.batches(["item", "shop"]))
    assert [batch.column("shop").to_pylist() for batch in batches] == [[12], [7], [None]]
    assert {batch.schema.field("shop").type for batch in batches} == {pa.int64()}
