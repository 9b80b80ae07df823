"""Parquet files: read whole and in parts, refused where they are damaged or decompress to far more than they are."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data.load import load
from accord.errors import InputError
from accord.io import parquet
from accord.io.parquet import DecompressionGuard, check_footer, delta_columns, read_batches, read_table


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


def test_which_columns_cannot_be_read_as_dictionaries(tmp_path):
    path = tmp_path / "log.parquet"
    columns = {"user": ["a", "b"], "item": ["x", "y"], "title": ["t", "u"]}
    pq.write_table(
        pa.table(columns),
        path,
        use_dictionary=["title"],
        column_encoding={"item": "DELTA_BYTE_ARRAY"},
        row_group_size=1,
    )
    assert delta_columns(pq.ParquetFile(path)) == {"item"}
    assert read_table(path).to_pydict() == columns
    assert [batch.to_pydict() for batch in read_batches(path, set())][-1] == {
        name: values[-1:] for name, values in columns.items()
    }


def codes(*texts, **more):
    return pa.array(texts, **more).dictionary_encode()


def test_text_is_decoded_up_to_a_size_of_all_batches_together(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "SMALL", 10)
    monkeypatch.setattr(parquet, "MOST_TIMES", 2)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"1234")
    batch = pa.record_batch({"item": codes("xyz", "xyz", "z", "z"), "user": codes("ab", "c", "ab", None)})
    guard = DecompressionGuard([tmp_path / "a"])
    decoded = guard.decoded(batch, but={"item"})
    assert decoded.schema.types == [batch.schema.field("item").type, pa.string()]
    assert decoded.to_pydict() == batch.to_pydict()
    assert guard.size == 5
    guard.decoded(batch, but={"item"})
    assert guard.size == 10, "as much as may be"
    sentence = r"decompresses to more than 2 times its size, which no log does; write it again\.$"
    with pytest.raises(InputError, match=rf"^{tmp_path}/a {sentence}"):
        guard.decoded(pa.record_batch({"user": codes("a")}))
    folder = DecompressionGuard([tmp_path / "a", tmp_path / "b"])
    folder.decoded(batch)
    assert folder.size == 13
    folder.decoded(pa.record_batch({"user": codes("a")}))
    with pytest.raises(InputError, match=rf"^{tmp_path} {sentence}"):
        folder.decoded(pa.record_batch({"user": codes("a")}))


def test_what_counts_as_text_that_is_decoded(tmp_path):
    (tmp_path / "a").touch()
    field = pa.field("user", pa.dictionary(pa.int32(), pa.string()), metadata={"kept": "yes"})
    table = pa.table(
        [pa.chunked_array([codes("ab", None), codes("c", "c")]), codes(1, 2, 2, 1), codes(b"ab", b"", None, b"c"),
         pa.array([1.0, 2.0, 3.0, 4.0]), pa.array(["abcd", "", "", ""])],
        schema=pa.schema([field, ("number", pa.dictionary(pa.int32(), pa.int64())),
                          ("bytes", pa.dictionary(pa.int32(), pa.binary())), ("value", pa.float64()),
                          ("text", pa.string())]),
    )  # fmt: skip
    guard = DecompressionGuard([tmp_path / "a"])
    decoded = guard.decoded(table)
    assert guard.size == 4 + 0 + 3 + table.column("text").nbytes
    assert decoded.to_pydict() == table.to_pydict()
    assert decoded.schema.types == [pa.string(), pa.int64(), pa.binary(), pa.float64(), pa.string()]
    assert decoded.schema.field("user").metadata == {b"kept": b"yes"}
    before = guard.size
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([None], pa.string()))
    for empty in (codes(None, None, type=pa.string()), nothing):
        assert guard.decoded(pa.record_batch({"user": empty})).to_pydict() == {"user": [None, None]}
    assert guard.size == before


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
