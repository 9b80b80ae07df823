"""`accord.load` takes names, files, folders and frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord.data.load import load
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
