"""`accord.load` takes names, files, folders and frames."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from accord.data.load import load, load_named
from accord.errors import InputError
from logs import split_folder, write


def test_a_clean_rule_chooses_the_value_column(tmp_path: Path) -> None:
    body = "".join(f"u{n % 7},i{n % 11},1,{n}\n" for n in range(77))
    path = write(tmp_path / "a.csv", "user,item,rating,seconds\n" + body)
    dataset = load(path, clean="seconds>40", split="random")
    assert dataset.test.source_name("value") == "seconds"
    assert (dataset.test.column("value") > 40).all()
    assert dataset.test_noisy is not None
    assert len(dataset.test_noisy) == 8


def test_a_ready_split_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already split"):
        load(split_folder(tmp_path), clean="value>=5")
    with pytest.raises(InputError, match="already split"):
        load("demo", split="random")


def test_movielens_itself(shared_data: Path) -> None:
    dataset = load(shared_data / "ml-100k-raw" / "u.data", clean="value>=5")
    assert dataset.name == "ml-100k-raw"
    assert dataset.test_noisy is not None
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test_noisy) == 100_000
    assert (len(dataset.users), len(dataset.items)) == (943, 1682)


def test_a_dataset_is_named_after_its_source(tmp_path: Path) -> None:
    path = write(tmp_path / "clicks.2024.csv", "user,item\n" + "".join(f"u{n % 7},i{n % 11}\n" for n in range(77)))
    assert load(path).name == "clicks"
    assert load(path, name="mine").name == "mine"
    assert load(pa.table({"user": [*range(20)] * 2, "item": [n % 8 for n in range(40)]})).name == "data"
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_bytes(path.read_bytes())
    assert load(tmp_path / "ml-100k").name == "ml-100k-own-split"  # the paper's settings are not for this split


def test_a_file_comes_before_a_named_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("demo").name == load_named("demo").name == "demo"
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "demo", "user\titem\n" + "".join(f"u{n % 7}\ti{n % 11}\n" for n in range(77)))
    assert len(load("demo").users) == 7
    assert len(load_named("demo").users) == 1000


def test_items_are_joined_whatever_the_source_is(tmp_path: Path) -> None:
    titles = pa.table({"id": [0, 2], "title": ["zero", "two"]})
    found = load(split_folder(tmp_path), items=titles)
    assert found.item_info is not None
    assert found.item_info.column("title").to_pylist() == ["zero", None, "two"]
    assert found.notes[-1].endswith("titles for 2 of 3 items.")


def test_a_source_that_cannot_be_opened_is_refused_before_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").symlink_to(tmp_path / "log.csv")
    with pytest.raises(InputError, match="no file or folder"):
        load(tmp_path / "log.csv")
