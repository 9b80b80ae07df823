from __future__ import annotations

import csv
import gzip
import string
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.columns import Columns
from accord.data.interactions import Dataset, Interactions
from accord.data.load import load
from accord.data.read import read_split_folder, read_table
from accord.errors import InputError

ROWS = [("ann", "x", 5.0, 10), ("bob", "y", 3.0, 20), ("ann", "y", 1.0, 30)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def rows(interactions: Interactions) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in interactions.table.columns), strict=True))


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


def test_a_header_may_hold_a_number(tmp_path: Path) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", "user,item,2020\nann,x,5\nbob,y,3\n"), Columns(value="2020"))
    assert rows(interactions) == [("ann", "x", 5.0), ("bob", "y", 3.0)]


def test_the_guess_is_said_and_can_be_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "visitorid,itemid,shop,timestamp\n1,2,7,10\n2,3,8,20\n")
    _, notes = read_table(path)
    assert "user column 'visitorid', item column 'itemid', value column none, time column 'timestamp'" in notes[0]
    interactions, _ = read_table(path, Columns(item="shop", value="itemid"))
    assert rows(interactions) == [(1, 7, 2.0, 10), (2, 8, 3.0, 20)]
    assert interactions.source_name("value") == "itemid"


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            "user,user_id,item\n1,2,3\n",
            None,
            "'user' and 'user_id' could each be the user column; say which with --user-col",
        ),
        ("who,what\na,b\n", None, "no user column among 'who', 'what'; give --user-col"),
        ("user,what\na,b\n", None, "no item column among 'user', 'what'; give --item-col"),
        ("user,item\na,b\n", Columns(user="usr"), "no column 'usr' (did you mean 'user'?)"),
        ("user,item\na,b\n", Columns(user="item", item="item"), "one column was given for two roles"),
        ("user,item,item\na,b,c\n", Columns(item="item"), "more than one column 'item'"),
        ("", None, "is empty"),
        ("\n\n", None, "is empty"),
        ("user,item\n", None, "is empty"),
        ("user\na\n", None, "one column only"),
        ("1,2,3,4,5\n", None, "5 columns and no header line"),
        ("user,item\na,x\na,y\n", None, "only one user ('a') in column 'user'"),
        ("user,item\n1,x\n2,x\n", None, "only one item ('x') in column 'item'"),
        ("user,item\na,x\n,y\nb,\n", None, "1 row has no user id in column 'user' (first: row 2)"),
        ("user,item\n1,x\n2,y\nnan,y\nNULL,x\n", None, "2 rows have no user id in column 'user' (first: row 3)"),
        ("user,item,value\na,x,1\nb,y\n", None, "cannot be read "),
        ("user,item,value\na,x,1\nb,y,much\n", Columns(value="value"), "has 'much' in row 2, which is not a number"),
        (
            "user,item,time\na,x,1\nb,y,soon\n",
            Columns(time="time"),
            "has 'soon' in row 2, which is neither a number nor",
        ),
        ("user,item,time\na,x,2020-01-01\nb,y,soon\n", Columns(time="time"), "has 'soon' in row 2"),
        ("user,item,time\na,x,1\nb,y,\n", Columns(time="time"), "is empty in row 2"),
    ],
)
def test_bad_files_are_told_in_one_sentence(tmp_path: Path, text: str, columns: Columns | None, message: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(InputError) as caught:
        read_table(path, columns)
    assert message in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_a_guessed_value_that_is_no_number_is_left_out_and_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,value\na,x,1\nb,y,much\n")
    interactions, notes = read_table(path)
    assert not interactions.has_value
    assert any("'much' in row 2" in note and "left out" in note for note in notes)
    with pytest.raises(InputError, match="'much' in row 2"):
        load(path, clean="value>=1")


def test_a_clean_rule_chooses_the_value_column(tmp_path: Path) -> None:
    body = "".join(f"u{n % 7},i{n % 11},1,{n}\n" for n in range(77))
    path = write(tmp_path / "a.csv", "user,item,rating,seconds\n" + body)
    dataset = load(path, clean="seconds>40", split="random")
    assert dataset.test.source_name("value") == "seconds"
    assert (dataset.test.column("value") > 40).all()
    assert dataset.test_noisy is not None
    assert len(dataset.test_noisy) == 8


def test_repeated_pairs_are_merged(tmp_path: Path) -> None:
    timed = "user,item,value,time\na,x,1,30\na,x,2,10\nb,y,3,5\na,x,9,20\n"
    interactions, notes = read_table(write(tmp_path / "timed.csv", timed))
    assert rows(interactions) == [("a", "x", 1.0, 30), ("b", "y", 3.0, 5)]
    assert any("2 rows repeat a (user, item) pair and were merged, keeping the latest" in note for note in notes)
    interactions, notes = read_table(write(tmp_path / "plain.csv", "user,item,value\na,x,1\nb,y,3\na,x,9\n"))
    assert rows(interactions) == [("b", "y", 3.0), ("a", "x", 9.0)]
    assert any("keeping the last row" in note for note in notes)


def test_missing_values_stay_and_are_counted(tmp_path: Path) -> None:
    interactions, notes = read_table(write(tmp_path / "a.csv", "user,item,value\na,x,1\nb,y,\n"))
    assert np.isnan(interactions.column("value")).tolist() == [False, True]
    assert any("1 rows have no value" in note for note in notes)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1970-01-02", "1970-01-03 00:00:01", [86400, 172801]),
        ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z", [10, 20]),
        ("1970-01-01 00:00:00.5", "1970-01-01 00:00:01", [0.5, 1.0]),
        ("881250949", "881250950", [881250949, 881250950]),
        ("1.5", "2", [1.5, 2.0]),
    ],
)
def test_times(tmp_path: Path, first: str, second: str, expected: list[float]) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", f"user,item,date\na,x,{first}\nb,y,{second}\n"))
    assert interactions.column("time").tolist() == expected


def test_ids_keep_their_type(tmp_path: Path) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", "user,item\n007,1\n7,-2\n"))
    assert interactions.users.to_pylist() == ["007", "7"]  # as integers they would be one user
    assert interactions.items.to_pylist() == [1, -2]
    typed, _ = read_table(pa.table({"user": ["1", "2"], "item": pa.array([1, 2], pa.uint8())}))
    assert typed.table.schema.types == [pa.string(), pa.int64()]


IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda text: text.strip(string.whitespace) != "" and not text.startswith("'")  # see test_spreadsheets
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(IDS, IDS), min_size=2, max_size=12, unique=True), st.sampled_from(",;\t"))
def test_text_ids_survive_csv(pairs: list[tuple[str, str]], delimiter: str) -> None:
    pairs = [*pairs, ('first, "user"', "ü;x"), ("second\tuser", "line\nbreak")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ids.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([("user", "item"), *pairs])
        interactions, _ = read_table(path)
    assert set(rows(interactions)) == set(pairs)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**17), 10**17), st.integers(0, 10**6)), min_size=2, unique=True))
def test_integer_ids_survive_csv(pairs: list[tuple[int, int]]) -> None:
    pairs = list({*pairs, (1, 2), (3, 4)})
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "ids.csv", "user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
        interactions, _ = read_table(path)
    assert interactions.table.schema.types == [pa.int64(), pa.int64()]
    assert set(rows(interactions)) == set(pairs)


FRAME = {"user_id": ["ann", "bob", "ann"], "item_id": ["x", "y", "y"], "rating": [5, 3, 1], "timestamp": [10, 20, 30]}


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


def split_folder(folder: Path, **parts: str) -> Path:
    files = {
        "train.rating": "0\t0\t5\r\n1\t1\t3\r\n1\t1\t4\r\n4\t2\t1\r\n",
        "valid.rating": "0\t1\t5",
        "test.negative": "1\t0\t5\n",
    }
    for part, text in (files | {name.replace("_", "."): text for name, text in parts.items()}).items():
        if text:
            write(folder / f"toy.{part}", text)
    return folder


def test_split_folder(tmp_path: Path) -> None:
    dataset = load(split_folder(tmp_path, test_negative="1\t0\t5\n1\t0\t5\n7\t3\t5\n"))
    assert dataset.name == "toy"
    assert rows(dataset.train) == [(0, 0, 5.0), (1, 1, 4.0), (4, 2, 1.0)]
    assert rows(dataset.test) == [(1, 0, 5.0), (1, 0, 5.0), (7, 3, 5.0)]  # repeated rows are the protocol's business
    assert (len(dataset.users), len(dataset.items)) == (8, 4)
    assert dataset.valid_clean is None
    assert dataset.test_noisy is None
    said = " ".join(dataset.notes)
    for sentence in ("1 rows repeat", "1 test users (1 of 3", "1 test items (1 of 3"):
        assert sentence in said
    assert load(dataset) is dataset


def test_split_folder_with_noisy_parts(tmp_path: Path) -> None:
    dataset = load(split_folder(tmp_path, valid_noisy="0\t1\n4\t1\n", test_noisy="1\t0\t5\n1\t2\t1\n"))
    assert rows(dataset.valid) == [(0, 1), (4, 1)]
    assert dataset.valid_clean is not None
    assert rows(dataset.valid_clean) == [(0, 1, 5.0)]
    assert dataset.test_noisy is not None
    assert len(dataset.test_noisy) == 2


def test_split_folder_with_ids_that_are_no_rows(tmp_path: Path) -> None:
    dataset = load(split_folder(tmp_path, train_rating="ann\t0\t5\n0\t1\t5\n1\t1\t5\n"))
    assert dataset.users.ids.to_pylist() == ["0", "1", "ann"]
    assert len(dataset.items) == 2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train_rating": ""}, r"has no toy\.train\.rating; add that file"),
        ({"valid_rating": ""}, r"has no toy\.valid\.rating; add that file"),
        ({"test_negative": "1\t9\t5\n"}, "no item of the test occurs in training"),
        ({"train_rating": "1\n"}, "must have two or three tab-separated columns"),
        ({"train_rating": "1\t2\t3\n1\t2\n"}, "cannot be read"),
        ({"train_rating": "1\t2\tx\n"}, "'x' in row 1, which is not a number"),
        ({"train_rating": "\t2\t3\n"}, "1 row has no user id"),
    ],
)
def test_bad_split_folders(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(split_folder(tmp_path, **parts))


def test_a_ready_split_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already split"):
        load(split_folder(tmp_path), clean="value>=5")
    with pytest.raises(InputError, match="already split"):
        load("demo", split="random")


@pytest.mark.parametrize(
    ("name", "users", "items", "train", "valid", "test"),
    [
        ("ml-100k", 944, 1611, 79619, 9901, 3594),
        ("modcloth", 44784, 1020, 79914, 9990, 5433),
        ("adressa", 212231, 6596, 419491, 43262, 18632),
    ],
)
def test_the_papers_splits(
    shared_data: Path, name: str, users: int, items: int, train: int, valid: int, test: int
) -> None:
    dataset: Dataset = read_split_folder(shared_data / name)
    sizes = [len(part) for part in (dataset.users, dataset.items, dataset.train, dataset.valid, dataset.test)]
    assert sizes == [users, items, train, valid, test]
    clean = 1 if name == "adressa" else 5
    assert (dataset.test.column("value") == clean).all()
    assert (dataset.valid_clean is not None) == (name == "ml-100k")


def test_electronics_has_no_training_file(shared_data: Path) -> None:
    with pytest.raises(InputError, match=r"no electronics\.train\.rating; .* `accord data get electronics`"):
        load(shared_data / "electronics")


def test_movielens_itself(shared_data: Path) -> None:
    dataset = load(shared_data / "ml-100k-raw" / "u.data", clean="value>=5")
    assert dataset.name == "ml-100k-raw"
    assert dataset.test_noisy is not None
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test_noisy) == 100_000
    assert (len(dataset.users), len(dataset.items)) == (943, 1682)
