"""What a file must not get away with."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data import untrusted
from accord.data.read import read_table
from accord.errors import InputError
from accord.io import parquet


def batch(*ids: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids)], names=["user"])


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match=r"pipe\.csv is .* pipe or device, not a file, and cannot be read twice"):
        read_table(tmp_path / "pipe.csv")


def test_a_packed_log_that_is_mostly_air_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + b"a,x\nb,y\n" * 100_000))
    assert len(read_table(path)[0]) == 2  # little text may be packed as well as it can
    monkeypatch.setattr(untrusted, "SMALL_TEXT", 2**10)
    with pytest.raises(InputError, match=r"decompresses to more than 100 times its size.*decompress it yourself"):
        read_table(path)


def test_text_is_unpacked_by_its_name(tmp_path: Path) -> None:
    for name, content in (("a.csv", b"text"), ("a.csv.gz", gzip.compress(b"text"))):
        (tmp_path / name).write_bytes(content)
        with untrusted.open_text(tmp_path / name) as stream:
            assert stream.read(10) == b"text"


def test_text_in_delta_encodings(tmp_path: Path) -> None:
    path, delta = tmp_path / "delta.parquet", {"user": "DELTA_BYTE_ARRAY", "item": "DELTA_LENGTH_BYTE_ARRAY"}
    log = pa.table({"user": [f"user-{n % 7}" for n in range(2000)], "item": [f"item-{n}" for n in range(2000)]})
    pq.write_table(log, path, use_dictionary=False, column_encoding=delta)
    assert read_table(path)[0].table.equals(log)
    assert parquet.read_table(path).equals(log)


def test_a_page_that_is_mostly_air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.parquet"
    table = pa.table({"user": ["x" * 1000] * 10_000, "item": range(10_000)})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    monkeypatch.setattr(parquet, "SMALL", 2**20)
    with pytest.raises(InputError, match="decompresses to more than 100 times its size"):
        read_table(path)


def test_zip_archives_that_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def archive(**members: bytes) -> Path:
        with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in members.items():
                made.writestr(name.replace("_", "."), content)
        return tmp_path / "log.zip"

    with pytest.raises(InputError, match=r"holds 2 files \(.*\); give one of them, as .*\.zip:.*, or unpack it\."):
        read_table(archive(a_csv=b"user,item\n", b_csv=b""))
    with pytest.raises(InputError, match="holds no file"):
        read_table(archive())
    for name in ("log_parquet", "log_xlsx", "log_zip", "log_csv_gz"):
        with pytest.raises(InputError, match="which is not read from an archive: unpack it"):
            read_table(archive(**{name: b"x"}))
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "bad.zip")
    whole = archive(log_csv=b"user,item\n" + b"a,x\nb,y\n" * 100_000)
    assert len(read_table(whole)[0]) == 2
    monkeypatch.setattr(untrusted, "SMALL_TEXT", 2**10)
    with pytest.raises(InputError, match="decompresses to more than 100 times its size"):
        read_table(whole)
    content = bytearray(archive(log_csv=b"user,item\na,x\nb,y\n").read_bytes())
    content[45] ^= 0xFF  # in the packed text
    (tmp_path / "log.zip").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be (unpacked|read)"):
        read_table(tmp_path / "log.zip")


def test_text_of_parquet_is_checked(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pq.write_table(pa.table({"user": text, "item": [1]}), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_table(tmp_path / "log.parquet")


def test_ids_come_back_as_they_were_before_a_spreadsheet() -> None:
    notes: list[str] = []
    found = list(untrusted.as_written("log", [batch("ann", "bob"), batch("'=1+1", "ann")], ["user"], notes))
    assert [one.column(0).to_pylist() for one in found] == [["ann", "bob"], ["=1+1", "ann"]]
    assert len(notes) == 1
    assert "column 'user'" in notes[0]


def test_zeros_left_by_a_crash_are_refused() -> None:
    sentence = (
        r"^log: column 'user' has a NUL byte in 'a\\x00', row 5; "
        r"take it out, or make or copy the file again if a crash left it there\.$"
    )
    with pytest.raises(InputError, match=sentence):
        list(untrusted.as_written("log", [batch("b", "c", "b"), batch("b", "a\0", "b")], ["user"], []))


def test_a_table_of_an_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "films.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("films/ratings.csv", "user,item\n1,a\n2,b\n")
        made.writestr("films/films.csv", "item,title\na,Alien\n")
    with pytest.raises(InputError, match=r"'films/ratings\.csv', 'films/films\.csv'\); give one of them, as .*ratings"):
        read_table(tmp_path / "films.zip")
    for name in ("films/ratings.csv", "ratings.csv"):
        found, _ = read_table(f"{tmp_path}/films.zip:{name}")
        assert found.items.to_pylist() == ["a", "b"]
    with pytest.raises(InputError, match=r"holds no file 'other\.csv' but 2 files \('films/ratings"):
        read_table(f"{tmp_path}/films.zip:other.csv")
    with pytest.raises(InputError, match="no file or folder"):
        read_table(f"{tmp_path}/none.zip:ratings.csv")
