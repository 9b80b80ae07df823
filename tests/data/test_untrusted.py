"""What a file must not get away with."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data import untrusted
from accord.data.read import read_table
from accord.errors import InputError


def batch(*ids: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids).dictionary_encode()], names=["user"])


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match=r"pipe\.csv is .* pipe or device, not a file, and cannot be read twice"):
        untrusted.require_file(tmp_path / "pipe.csv", "pipe.csv")


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
        with untrusted.opened(tmp_path / name) as stream:
            assert stream.read(10) == b"text"


def test_text_of_parquet_is_checked(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pq.write_table(pa.table({"user": text, "item": [1]}), tmp_path / "log.parquet")
    dataset = untrusted.tables([tmp_path / "log.parquet"], "parquet")
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        list(untrusted.sound(dataset, dataset.to_batches))


def test_ids_come_back_as_they_were_before_a_spreadsheet() -> None:
    notes: list[str] = []
    found = list(untrusted.as_written("log", [batch("ann", "bob"), batch("'=1+1", "ann")], ["user"], notes))
    assert [one.column(0).to_pylist() for one in found] == [["ann", "bob"], ["=1+1", "ann"]]
    assert len(notes) == 1
    assert "column 'user'" in notes[0]
    with pytest.raises(InputError, match="column 'user' has both '=2' and \"'=1\""):
        list(untrusted.as_written("log", [batch("'=1"), batch("=2")], ["user"], []))


def test_zeros_left_by_a_crash_are_refused() -> None:
    with pytest.raises(InputError, match=r"column 'user' has NUL characters in 'a\\x00'"):
        list(untrusted.as_written("log", [batch("a\0")], ["user"], []))
