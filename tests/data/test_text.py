"""Delimited text of all kinds, JSON Lines, and lines of a user with its items."""

from __future__ import annotations

import bz2
import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from accord.data import text
from accord.data.columns import Columns
from accord.data.read import read_table
from accord.errors import InputError
from logs import ROWS, rows, write

LINES = '{"user": "ann", "item": "x", "rating": 5, "ts": 10}\n{"user": "bob", "item": "y", "rating": 3, "ts": 20}\n\n'
LINES += '{"ts": 30, "item": "y", "user": "ann", "rating": 1.0, "tags": ["a"]}'


def test_blanks_between_columns(tmp_path: Path) -> None:
    headed = "user item rating timestamp\nann x 5 10\nbob  y 3   20 \r\n ann\ty 1 30"
    assert rows(read_table(write(tmp_path / "a.txt", headed))[0]) == ROWS
    found, notes = read_table(write(tmp_path / "b", "1 7 5 100\n2 8 3 200\n"))
    assert rows(found) == [(1, 7, 5.0, 100), (2, 8, 3.0, 200)]
    assert "no header line; its columns were read as user, item, value, time" in notes[0]


@pytest.mark.parametrize(
    ("third", "role"),
    [
        ("874965758", "time"), ("1700000000", "time"), ("1700000000000", "time"), ("1700000000.5", "time"),
        ("2024-03-01", "time"), ("2024-03-01T10:00:00Z", "time"), ("2024/3/1 10:00", "time"),
        ("1 Mar 2024", "time"), ("13.03.2024", "time"), ("2024", "value"), ("nan", "value"), ("inf", "value"),
        ("5", "value"), ("4.5", "value"), ("12000", "value"), ("99999999", "value"),
    ],
)  # fmt: skip
def test_a_third_column_without_a_name_holds_times_where_it_is_a_moment(tmp_path: Path, third: str, role: str) -> None:
    found, notes = read_table(write(tmp_path / "a.csv", f"1,7,{third}\n2,8,{third}\n"))
    assert f"its columns were read as user, item, {role}." in notes[0]
    assert len(rows(found)) == 2


def test_blanks_are_skipped_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", "\nuser  item\n\n" + "".join(f"u{n}   i{n % 7}  \n" for n in range(500)))
    monkeypatch.setattr(text, "LINES_AT_ONCE", 64)
    found, _ = read_table(path)
    assert set(rows(found)) == {(f"u{n}", f"i{n % 7}") for n in range(500)}


def test_lines_of_different_lengths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has 6 columns and no header line; add one that names them"):
        read_table(write(tmp_path / "train.txt", "0 1 2 3 4 5\n1 2 3\n2\n3 1 \n"))
    with pytest.raises(InputError, match=r"cannot be read \(line 2 has 3 cells and not 4\); give every row the same"):
        read_table(write(tmp_path / "short.txt", "1 2 5 100\n1 3 4\n"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "log", "a.txt"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    found, notes = read_table(write(tmp_path / name, "\ufeff" + LINES))
    assert rows(found) == ROWS
    assert "; not used: 'tags'." in notes[0]


def test_json_lines_have_gaps_and_types(tmp_path: Path) -> None:
    content = [{"user": 1, "item": True}, {"user": 2.0, "item": "007", "rating": False}, {"user": "3", "item": "é"}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, content)))
    found, notes = read_table(path)
    assert found.users.to_pylist() == [1, 2, 3]
    assert found.items.to_pylist() == ["1", "007", "é"]
    assert found.table.column("value").to_pylist() == [None, 0.0, None]
    assert any("user ids like '2.0'" in note for note in notes)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"user": 1', r"line 3 is not JSON \(.*\); write one object a line"),
        ("7", "line 3 is 7, not an object; write one object a line"),
        ('{"user": [1], "item": 2}', "'user' is a list in line 3"),
        ('{"user": {"id": 1}, "item": 2}', "'user' is an object in line 3"),
        ('{"item": 2}', r"1 row has no user id in column 'user' \(first: row 3\)"),
        ('{"user": null, "item": 2}', r"1 row has no user id in column 'user' \(first: row 3\)"),
        ('{"user": "\\ud800", "item": 2}', "is not UTF-8 text"),
        ('{"user": 1, "item": ' + "[" * 100_000, "line 3 is not JSON"),
        ('{"user": 1, "item": ' + "9" * 5000 + "}", "line 3 is not JSON"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"user": 1, "item": 1}\n{"user": 2, "item": 2}\n' + line)
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_an_array_of_json(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is one JSON array; write one object a line instead"):
        read_table(write(tmp_path / "a.json", '[{"user": 1, "item": 2}]'))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "zip"])
def test_quotes_are_quotes_however_a_file_is_packed(tmp_path: Path, suffix: str) -> None:
    content = b'"user","item"\n"u000","x, y"\n"u001","z"\n'
    path = tmp_path / f"a.csv.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/a.CSV", content)
            archive.writestr("__MACOSX/folder/._a.CSV", b"\0")
    elif suffix == "zst":
        path.write_bytes(pa.compress(content, codec="zstd", asbytes=True))
    else:
        path.write_bytes({"gz": gzip, "bz2": bz2}[suffix].compress(content))  # type: ignore[attr-defined]
    assert rows(read_table(path)[0]) == [("u000", "x, y"), ("u001", "z")]


FIX = r"take it out, or make or copy the file again if a crash left it there\.$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"us\0er,item\n", rf"a\.csv has a NUL byte in line 1; {FIX}"),
        ("user,item\né,1\n".encode() + b"2,\0\n", rf"a\.csv has a NUL byte in line 3; {FIX}"),
        (b"\0" * 99, rf"a\.csv has a NUL byte in line 1; {FIX}"),
        (b"user,item\n" + b"1,2\n" * 50_000 + b"1,3\0\n", rf"a\.csv: column 'item' .*, row 50,001; {FIX}"),
        ("user,item\n1,2\n".encode("utf-16"), "is not UTF-8 text; save it as UTF-8, or as Parquet"),
        ("user,item\n1,2\n".encode("utf-16-le"), "is not UTF-8 text; save it as UTF-8"),
        ("user,item\n1,2\n".encode("utf-16-be"), "is not UTF-8 text; save it as UTF-8"),
        (b"user,item\ncaf\xe9,2\n\0", "is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_a_nul_byte_is_told_from_text_of_another_encoding(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_a_long_header_is_read_whole(tmp_path: Path) -> None:
    names = ["user", "item", *(f"a_column_with_a_long_name_{n}" for n in range(8000)), "last"]
    line = ",".join(["1"] * 8002 + ["5"])
    path = write(tmp_path / "wide.csv", ",".join(names) + f"\n{line}\n{line.replace('1', '2')}\n")
    assert len(",".join(names)) > 3 * text.START
    found, _ = read_table(path, Columns(value="last"))
    assert rows(found) == [(1, 1, 5.0), (2, 2, 5.0)]


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 2**17)
    with pytest.raises(InputError, match="the first line is longer"):
        read_table(write(tmp_path / "a.csv", "x" * 2**18))
    with pytest.raises(InputError, match="has a line of more than"):
        read_table(write(tmp_path / "a.jsonl", '{"user": 1, "item": 2}\n' + " " * 2**22))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"PK\x03\x04", r"is a sheet or a zip archive; save a sheet as CSV, and name an archive \.zip"),
        (b"\xd0\xcf\x11\xe0\xa1", "is an Excel file; save it as CSV"),
        (b"PAR1", r"is Parquet; name it \.parquet"),
        (b"ORC", "is ORC, which is not read; save it as Parquet"),
        (b"\x1f\x8b\x08", r"is compressed; name it \.gz"),
        (b"SQLite format 3\0", "is an SQLite database; give it as sqlite:///PATH with a query"),
    ],
)
def test_what_is_no_text_is_called_by_its_name(tmp_path: Path, start: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(start + b" and so on\n")
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "a.csv")
