"""Parquet files: read whole and in parts, refused where they are damaged or decompress to far more than they are."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data.load import load
from accord.errors import InputError
from accord.io import parquet
from accord.io.parquet import check_footer, read_batches, read_table


def test_parquet_whole_and_in_parts(tmp_path, monkeypatch):
    table = pa.table({"user": range(25), "item": ["a"] * 25})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").equals(table)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 10)
    batches = list(read_batches(tmp_path / "a.parquet", {"user", "item"}))
    assert [batch.num_rows for batch in batches] == [0, 10, 10, 5]
    assert all(batch.schema.equals(table.schema) for batch in batches)
    pq.write_table(table[:0], tmp_path / "empty.parquet")
    assert read_table(tmp_path / "empty.parquet").equals(table[:0])
    with pytest.raises(InputError, match=r"a\.parquet is damaged \(it has no column 'score'\)"):
        list(read_batches(tmp_path / "a.parquet", {"user", "score"}))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match=r"a\.parquet is damaged"):
        read_table(tmp_path / "a.parquet")


def test_more_rows_than_so_few_bytes_can_mean_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MANY_ROWS", 1000)
    monkeypatch.setattr(parquet, "MOST_ROWS_A_BYTE", 2)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"user": pa.array([1] * 10)}), path)
    size = path.stat().st_size
    for rows in (1000, 2 * size):  # as few as any file may have, and as many as the size allows
        with pytest.raises(InputError, match=r"it claims [\d,]+ rows and holds 10"):
            checked(path, num_rows=rows)
    most = max(1000, 2 * size)
    claim = rf"^\S+bomb\.parquet claims {most + 1:,} rows in {size:,} bytes, so it is not read\.$"
    with pytest.raises(InputError, match=claim):
        checked(path, num_rows=most + 1)
    pq.write_table(pa.table({"user": pa.array([1] * 10_000)}), path)
    with pytest.raises(InputError, match=r"bomb\.parquet claims 10,000 rows in [\d,]+ bytes"):
        read_table(path)


def footer_of(path, **claims):
    """What a Parquet file says of itself, some of it changed."""
    real = pq.read_metadata(path)
    facts = {name: getattr(real, name) for name in ("row_group", "num_row_groups", "num_rows", "num_columns", "schema")}
    return SimpleNamespace(**facts | claims)


def checked(path, footer=None, **claims):
    """Check a file by what its footer says, or another one."""
    with pq.ParquetFile(path, thrift_container_size_limit=parquet.MOST_LISTED) as real:
        footer = footer or footer_of(path, **claims)
        check_footer(path, SimpleNamespace(metadata=footer, iter_batches=real.iter_batches))


def test_a_parquet_file_that_contradicts_itself_is_damaged(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(25), "items": [[1, 2]] * 25}), path, row_group_size=10)
    checked(path)
    for rows in (24, 26):
        with pytest.raises(
            InputError,
            match=rf"^\S+log\.parquet is damaged \(it claims {rows} rows and holds 25\); write it again\.$",
        ):
            checked(path, num_rows=rows)
    monkeypatch.setattr(parquet, "MANY_ROWS", 1000)
    monkeypatch.setattr(parquet, "MOST_ROWS_A_BYTE", 0)
    with pytest.raises(InputError, match="claims 1,234,567 rows"):
        checked(path, num_rows=1_234_567)
    monkeypatch.setattr(parquet, "MANY_ROWS", 24)
    with pytest.raises(InputError, match="claims 25 rows"):
        checked(path, num_rows=1)
    pq.write_table(pa.table({"user": range(25), "item": range(25)}), path)
    real = pq.read_metadata(path).row_group(0)

    def other(number):
        columns = [real.column(place) for place in range(2)]
        columns[number] = SimpleNamespace(num_values=24, total_uncompressed_size=1)
        group = SimpleNamespace(num_rows=25, num_columns=2, column=columns.__getitem__)
        return footer_of(path, row_group=lambda _: group)

    monkeypatch.setattr(parquet, "MANY_ROWS", 1000)
    for number in range(2):
        with pytest.raises(
            InputError,
            match=r"log\.parquet is damaged \(its columns do not have as many rows as it claims\); write it again\.$",
        ):
            checked(path, other(number))


def test_a_column_that_decompresses_to_far_more_than_the_file_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(10), "item": ["x" * 50] * 10}), path, use_dictionary=False)
    largest = max(pq.read_metadata(path).row_group(0).column(place).total_uncompressed_size for place in range(2))
    monkeypatch.setattr(parquet, "MOST_TIMES", 0)
    monkeypatch.setattr(parquet, "SMALL", largest)
    checked(path)
    monkeypatch.setattr(parquet, "SMALL", largest - 1)
    with pytest.raises(
        InputError,
        match=r"^\S+log\.parquet decompresses to more than 0 times its size, which no log does; write it again\.$",
    ):
        checked(path)
    monkeypatch.setattr(parquet, "MOST_TIMES", 1)  # of a file that is longer than each of its columns
    checked(path)


def test_a_file_of_more_columns_than_any_log_has_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(20)}), path)
    footer = pq.read_metadata(path)
    monkeypatch.setattr(parquet, "MOST_LISTED", 10)
    with pytest.raises(InputError, match=r"wide\.parquet is damaged"):
        read_table(path)
    with pytest.raises(OSError, match=r"."):
        checked(path, footer)


def test_a_damaged_page_of_any_row_group_is_found_before_it_is_used(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(40)}), path, row_group_size=20, compression="none", use_dictionary=False)
    footer = pq.read_metadata(path)
    checked(path, footer)
    content = bytearray(path.read_bytes())
    start = footer.row_group(1).column(0).data_page_offset
    content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"."):
        checked(path, footer)
    with pytest.raises(InputError, match=r"^\S+log\.parquet is damaged \((?s:.+)\); train again\.$"):
        read_table(path)


def test_dictionaries_are_read_as_what_they_stand_for(tmp_path):
    path = tmp_path / "log.parquet"
    field = pa.field("user", pa.dictionary(pa.int32(), pa.string()), metadata={"kept": "yes"})
    table = pa.table(
        [pa.array(["ab", None, "ab"]).dictionary_encode(), [1, 2, 3]], schema=pa.schema([field, ("n", pa.int64())])
    )
    pq.write_table(table, path)
    for found in (read_table(path), list(read_batches(path, {"user"}))[-1]):
        assert found.to_pydict() == {"user": ["ab", None, "ab"], "n": [1, 2, 3]}
        assert found.schema.types == [pa.string(), pa.int64()]
        assert found.schema.field("user").metadata[b"kept"] == b"yes"


def test_text_that_is_no_text_is_found(tmp_path):
    path = tmp_path / "log.parquet"
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pq.write_table(pa.table({"user": text}), path, use_dictionary=False)
    for read in (read_table, lambda path: list(read_batches(path, {"user"}))):
        with pytest.raises(InputError, match=r"log\.parquet is damaged \((?s:.+)UTF8(?s:.+)\); train again\.$"):
            read(path)


def test_a_name_that_is_no_text_is_said(tmp_path):
    """Arrow opens such a file, and fails only where the names of its columns are asked for."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user": [1, 2], "item": [3, 4]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"item", b"\xadtem"))
    with pytest.raises(InputError, match=r"a\.parquet is damaged \(the name of a column is not UTF-8\)"):
        read_table(path)
    table = pa.Table.from_arrays([pa.array([n]) for n in range(4)], names=["user", "item", "twice", "twice"])
    twice = tmp_path / "twice.parquet"
    pq.write_table(table, twice, store_schema=False)
    twice.write_bytes(twice.read_bytes().replace(b"twice", b"twic\xad"))
    for damaged in (path, twice):
        with pytest.raises(InputError) as told:
            load(damaged)
        assert str(told.value) == f"{damaged} is damaged (the name of a column is not UTF-8); write it again."
