"""Excel files, and those that would fill the memory."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from accord.data import untrusted
from accord.data.read import read_table
from accord.errors import InputError
from logs import ROWS, rows
from sheets import write_book

TABLE = [["user", "item", "rating", "timestamp"], ["ann", "x", 5, 10], ["bob", "y", 3, 20], ["ann", "y", 1, 30]]


def test_a_sheet(tmp_path: Path) -> None:
    found, notes = read_table(write_book(tmp_path / "a.xlsx", {"clicks": TABLE}))
    assert rows(found) == ROWS
    assert "user column 'user'" in notes[0]


def test_the_first_sheet_with_rows(tmp_path: Path) -> None:
    found, notes = read_table(write_book(tmp_path / "a.xlsx", {"empty": [], "clicks": TABLE, "notes": [["x"]]}))
    assert rows(found) == ROWS
    assert "read sheet 'clicks' of 3" in notes[0]


def test_numbers_and_dates_of_cells(tmp_path: Path) -> None:
    book = [
        ["user", "item", "date"],
        [12, "x", ("date", 40513.25)],
        [13.0, "y", ("date", 40514)],
        [12, "007", ("date", 40515)],
    ]
    found, notes = read_table(write_book(tmp_path / "a.xlsx", {"clicks": book}))
    assert rows(found) == [(12, "x", 1291183200), (13, "y", 1291248000), (12, "007", 1291334400)]
    assert not any("12.0" in note for note in notes)


def test_a_sheet_without_a_header(tmp_path: Path) -> None:
    found, notes = read_table(write_book(tmp_path / "a.xlsx", {"clicks": [[1, 7, 5], [2, 8, 3]]}))
    assert rows(found) == [(1, 7, 5.0), (2, 8, 3.0)]
    assert "no header line; its columns were read as user, item, value" in notes[0]


def test_gaps_are_missing_ids(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"1 row has no user id in column 'user' \(first: row 2\)"):
        read_table(write_book(tmp_path / "a.xlsx", {"clicks": [["user", "item"], ["a", "x"], [None, "y"]]}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.xlsx", "cannot be read as Excel"),
        ("a.xls", "cannot be read as Excel"),
        ("a.xlsb", r"save it as \.xlsx or CSV"),
        ("a.ods", r"save it as \.xlsx or CSV"),
    ],
)
def test_what_is_no_sheet(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"user,item\na,x\n")
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)
    with pytest.raises(InputError, match="is empty"):
        read_table(write_book(tmp_path / "empty.xlsx", {"clicks": []}))


def test_cells_far_from_each_other_make_no_room_between(tmp_path: Path) -> None:
    far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    with pytest.raises(
        InputError, match=r"cells in 1,048,576 rows and 16,384 columns, more than is read; save it as CSV"
    ):
        read_table(write_book(tmp_path / "far.xlsx", {"clicks": []}, raw=far))


def test_a_book_that_is_mostly_air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_book(tmp_path / "a.xlsx", {"clicks": TABLE})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b" " * 2**20)
    monkeypatch.setattr(untrusted, "SMALL_TEXT", 2**10)
    with pytest.raises(InputError, match="decompresses to more than 100 times its size"):
        read_table(path)


def test_without_calamine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match=r"pip install 'accord\[excel\]', or save it as CSV"):
        read_table(write_book(tmp_path / "a.xlsx", {"clicks": TABLE}))
