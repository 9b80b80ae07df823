"""Files, folders, frames and matrices of every known layout are opened, and others refused in one sentence."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from accord.data.columns import Columns
from accord.data.load import load
from accord.data.read import read_all_columns, read_table
from accord.data.store.prepare import prepare
from accord.errors import InputError
from logs import FRAME, ROWS, rows, write


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "user,item,rating,timestamp\nann,x,5,10\nbob,y,3,20\nann,y,1,30\n"),
        ("crlf.csv", "user,item,rating,timestamp\r\nann,x,5,10\r\nbob,y,3,20\r\nann,y,1,30"),
        ("bom.csv", "\ufeffuser,item,rating,timestamp\nann,x,5,10\nbob,y,3,20\nann,y,1,30\n"),
        ("semicolon.csv", "Visitor ID;Article;Dwell Time;Date\nann;x;5;10\nbob;y;3;20\nann;y;1;30\n"),
        (
            "order.tsv",
            "timestamp\tsku\textra\tscore\tcustomerId\n10\tx\t-\t5\tann\n20\ty\t-\t3\tbob\n30\ty\t-\t1\tann\n",
        ),
        (
            "r.inter",
            "user_id:token\titem_id:token\trating:float\ttimestamp:float\nann\tx\t5\t10\nbob\ty\t3\t20\nann\ty\t1\t30\n",
        ),
    ],
)
def test_text_files(tmp_path: Path, name: str, text: str) -> None:
    interactions, _ = read_table(write(tmp_path / name, text))
    assert rows(interactions) == ROWS


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\na,x\nb,y\n"))
    assert rows(read_table(path)[0]) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    "text", ["1\t7\t5\t100\n2\t8\t3\t200\n", "1::7::5::100\n2::8::3::200\n", "1,7,5,100\n2,8,3,200\n"]
)
def test_files_without_header(tmp_path: Path, text: str) -> None:
    interactions, notes = read_table(write(tmp_path / "ratings.dat", text))
    assert rows(interactions) == [(1, 7, 5.0, 100), (2, 8, 3.0, 200)]
    assert any("no header line; its columns were read as user, item, value, time" in note for note in notes)


def test_text_ids_without_header_and_numbers_beside_them(tmp_path: Path) -> None:
    interactions, notes = read_table(write(tmp_path / "a.csv", "ann,x,5\nbob,y,3\n"))
    assert rows(interactions) == [("ann", "x", 5.0), ("bob", "y", 3.0)]
    assert "no header line" in notes[0]


@pytest.mark.parametrize("text", ["ann,x\nann,y\nbob,x\n", "ann x\nann  y\nbob x\n", '"ann";"x"\nann;y\nbob;x\n'])
def test_text_ids_alone_without_header(tmp_path: Path, text: str) -> None:
    """The first row is data where one of its ids comes again in its column."""
    interactions, notes = read_table(write(tmp_path / "a.csv", text))
    assert rows(interactions) == [("ann", "x"), ("ann", "y"), ("bob", "x")]
    assert "no header line; its columns were read as user, item" in notes[0]


@pytest.mark.parametrize(
    "text", ["who,what\nann,x\nbob,y\n", "who,what\nann,x\nwho,what\nbob,y\n", "who,,what\nann,,x\n"]
)
def test_a_header_of_other_names_stays_one(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no user column among 'who'"):
        read_table(write(tmp_path / "a.csv", text))


def test_a_header_may_hold_a_number(tmp_path: Path) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", "user,item,2020\nann,x,5\nbob,y,3\n"), Columns(value="2020"))
    assert rows(interactions) == [("ann", "x", 5.0), ("bob", "y", 3.0)]


def test_the_row_of_a_bad_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Row #3"):
        read_table(write(tmp_path / "bad.csv", "user,item\na,x\nb,y,z\n"))


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes("user,item\nj\u00f6rg,x\nann,y\n".encode("latin-1"))
    with pytest.raises(InputError, match="save it as UTF-8"):
        read_table(path)
    path.write_bytes("user,item\nann,x\nbob,y\n".encode("utf-16"))
    with pytest.raises(InputError, match="save it as UTF-8"):
        read_table(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file or folder '.*nowhere\.csv'"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="no file or folder ''"):
        load("")
    with pytest.raises(InputError, match="nothing that can be read"):
        read_table(tmp_path)
    write(tmp_path / "a.csv", "user,item\na,x\nb,y\n")
    assert rows(read_table(tmp_path)[0]) == [("a", "x"), ("b", "y")]
    write(tmp_path / "b.csv", "user,item\na,x\nb,y\n")
    with pytest.raises(InputError, match=r"several tables \(a\.csv, b\.csv\)"):
        read_table(tmp_path)
    write(tmp_path / "bad.parquet", "not parquet")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "bad.parquet")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames(make: object) -> None:
    interactions, notes = read_table(make(FRAME))  # type: ignore[operator]
    assert rows(interactions) == ROWS
    assert "user column 'user_id'" in notes[0]
    again, _ = read_table(interactions)
    assert rows(again) == ROWS
    assert again.source_name("value") == "rating"


def test_difficult_pandas_columns() -> None:
    frame = pd.DataFrame(
        {"user": pd.Categorical(["a", "b"]), "item": [1, "x"], "time": pd.to_datetime([10**9, 2 * 10**9])}
    )
    assert rows(read_table(frame)[0]) == [("a", "1", 1), ("b", "x", 2)]
    filtered = pd.DataFrame({"user": ["a", "b", "c"], "item": ["x", "y", "z"]})[1:][::-1]
    found, notes = read_table(filtered)
    assert rows(found) == [("c", "z"), ("b", "y")]
    assert "not used" not in notes[0]
    floats = pd.DataFrame({"user": [1.0, 2.0], "item": [1.5, 2.0]})
    assert rows(read_table(floats)[0]) == [(1, "1.5"), (2, "2")]
    with pytest.raises(InputError, match=r"1 row has no user id in column 'user' \(first: row 2\)"):
        read_table(pd.DataFrame({"user": ["a", None], "item": [1, 2]}))
    with pytest.raises(InputError, match=r"1 row has no item id in column 'item' \(first: row 1\)"):
        read_table(pl.DataFrame({"user": ["a", "b"], "item": [float("nan"), 2.0]}))


def test_sparse_matrices() -> None:
    matrix = sp.csr_matrix(np.array([[0, 2.0], [1.0, 0], [3.0, 4.0]]))
    expected = [(0, 1, 2.0), (1, 0, 1.0), (2, 0, 3.0), (2, 1, 4.0)]
    assert rows(read_table(matrix)[0]) == expected
    assert rows(read_table(sp.coo_array(matrix))[0]) == expected
    with_zero = sp.coo_matrix(([1.0, 0.0, 1.0], ([0, 0, 1], [0, 1, 1])))
    assert rows(read_table(with_zero)[0]) == [(0, 0, 1.0), (1, 1, 1.0)]


def test_what_cannot_be_read() -> None:
    with pytest.raises(InputError, match="cannot read a int"):
        read_table(3)
    with pytest.raises(InputError, match="unknown dataset 'ml-100'; did you mean 'ml-100k'"):
        load("ml-100")
    with pytest.raises(InputError, match="is empty"):
        read_table(pd.DataFrame({"user": [], "item": []}))


def test_errors_say_how_columns_are_named_in_python(tmp_path: Path) -> None:
    for log in (pd.DataFrame({"who": [1, 2], "what": [1, 2]}), write(tmp_path / "a.csv", "who,what\na,b\n")):
        with pytest.raises(
            InputError, match=r"no user column among 'who', 'what'; call it 'user' or give columns=Columns\(user=…\)"
        ):
            load(log)
    with pytest.raises(InputError, match=r"needs a time column; give columns=Columns\(time=…\) or use split='random'"):
        load(pd.DataFrame({"user": [1, 2], "item": [1, 2]}), split="chronological")
    assert "Choose others with columns=Columns(user=…) and the like." in read_table(pa.table(FRAME))[1][0]


def test_several_files_and_patterns(tmp_path: Path) -> None:
    header = "user,item,rating,timestamp\n"
    one = write(tmp_path / "day-1.csv", f"{header}ann,x,5,10\nbob,y,3,20\n")
    two = write(tmp_path / "day-2.csv", f"{header}ann,y,1,30\n")
    write(tmp_path / "other.tsv", "x\ty\n1\t2\n")
    assert rows(read_table([one, two])[0]) == ROWS
    found, notes = read_table(str(tmp_path / "day-*.csv"))
    assert rows(found) == ROWS
    assert "day-*.csv: user column" in notes[0]
    assert load([one, two], ratios=(1, 0, 0)).name == "day-1"
    assert load(str(tmp_path / "day-*.csv"), ratios=(1, 0, 0)).name == tmp_path.name
    with pytest.raises(InputError, match=r"other\.tsv has other columns than .*day-1\.csv"):
        read_table([one, tmp_path / "other.tsv"])
    with pytest.raises(InputError, match=r"no file matches '.*night-\*\.csv'; check the pattern"):
        read_table(str(tmp_path / "night-*.csv"))
    for number in (1, 2):
        pq.write_table(pa.table(FRAME).slice(2 * number - 2, 2), tmp_path / f"{number}.parquet")
    assert rows(read_table(str(tmp_path / "*.parquet"))[0]) == ROWS
    with pytest.raises(InputError, match="files of different kinds"):
        read_table([one, tmp_path / "1.parquet"])


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/log-\xff.csv"))
    path.write_text("user,item\na,x\nb,y\n")
    with pytest.raises(InputError, match="has a name that is not UTF-8; rename it"):
        load(path)


def test_what_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "old.csv", "user,item\ra,x\rb,y\r")
    with pytest.raises(InputError, match=r"old\.csv has a stray carriage return; end lines with line feeds"):
        read_table(tmp_path / "old.csv")
    twice = pa.Table.from_arrays([pa.array(["a", "b"])] * 3, names=["user", "item", "user"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="2 columns are named 'user'; rename all but the one to read"):
        read_table(tmp_path / "twice.parquet")


@pytest.mark.parametrize(
    ("name", "start", "message"),
    [
        ("log.xlsx", b"PK\x03\x04", "is a sheet or a zip archive; save a sheet as CSV"),
        ("log.xls", b"\xd0\xcf\x11\xe0", "is an Excel file; save it as CSV"),
        ("log.orc", b"ORC", "is ORC, which is not read; save it as Parquet"),
    ],
)
def test_what_is_no_longer_read_says_how_to_convert_it(tmp_path: Path, name: str, start: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(start + bytes(99))
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


def test_columns_named_alike_are_refused_wherever_they_come_from(tmp_path: Path) -> None:
    twice = pa.table([["ann"], ["x"], ["y"]], names=["user", "item", "item"])
    pq.write_table(twice, tmp_path / "log.parquet")
    (tmp_path / "parts").mkdir()
    pq.write_table(twice, tmp_path / "parts" / "1.parquet")
    for name in ("log.csv", "more.csv"):
        write(tmp_path / name, "user,item,item\nann,x,y\n")
    files = [tmp_path / name for name in ("log.csv", "log.parquet", "parts")]
    sources = [
        *files,
        [tmp_path / "log.csv", tmp_path / "more.csv"],
        twice,
        pd.DataFrame([["ann", "x", "y"]], columns=twice.column_names),
    ]
    for source in sources:
        for way in (read_table, read_all_columns, lambda one: prepare(one, tmp_path / "store")):
            with pytest.raises(InputError, match=": 2 columns are named 'item'; rename all but the one to read"):
                way(source)


def test_columns_named_alike_that_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,x,item,x\nann,1,x,2\nbob,1,y,2\n")
    assert len(read_table(path)[0]) == 2
    with pytest.raises(InputError, match="2 columns are named 'x'"):
        read_all_columns(path)
