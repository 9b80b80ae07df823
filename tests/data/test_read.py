from __future__ import annotations

import csv
import string
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.columns import NO_TEXT_ID
from accord.data.interactions import Dataset
from accord.data.load import load
from accord.data.read import read_split_folder, read_table
from accord.errors import InputError
from logs import rows, split_folder, write


def test_a_guessed_value_that_is_no_number_is_left_out_and_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,value\na,x,1\nb,y,much\n")
    interactions, notes = read_table(path)
    assert not interactions.has_value
    assert any("'much' in row 2" in note and "ignored" in note for note in notes)
    with pytest.raises(InputError, match="'much' in row 2"):
        load(path, clean="value>=1")


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


IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda text: (
        text.strip(string.whitespace) != ""
        and text not in NO_TEXT_ID
        and not text.startswith("'")  # see test_spreadsheets
    )
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


def test_a_split_folder_without_validation_has_one_cut_from_its_training(tmp_path: Path) -> None:
    pairs = [(user, item) for user in range(9) for item in range(4)]
    folder = split_folder(tmp_path, train_rating="".join(f"{u}\t{i}\t1\n" for u, i in pairs), valid_rating="")
    dataset = load(folder)
    assert len(dataset.valid) == 4
    assert sorted((*rows(dataset.train), *rows(dataset.valid))) == [(u, i, 1.0) for u, i in pairs]
    assert any("has no toy.valid.rating: 4 of 36 training interactions are the validation" in n for n in dataset.notes)
    assert rows(load(folder).valid) == rows(dataset.valid)
    noisy = load(split_folder(tmp_path, valid_rating="", valid_noisy="0\t1\n"))
    assert (rows(noisy.valid), noisy.valid_clean) == ([(0, 1)], None)


def test_split_folder_with_ids_that_are_no_rows(tmp_path: Path) -> None:
    dataset = load(split_folder(tmp_path, train_rating="ann\t0\t5\n0\t1\t5\n1\t1\t5\n"))
    assert dataset.users.ids.to_pylist() == ["0", "1", "ann"]
    assert len(dataset.items) == 2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train_rating": ""}, r"has no toy\.train\.rating; add that file"),
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
