from __future__ import annotations

import json
from pathlib import Path

import pytest

from accord.data.check import check
from accord.data.interactions import Dataset, Interactions
from accord.data.read import read_split_folder
from accord.data.simulate import simulate


def test_a_small_dataset_with_everything_wrong() -> None:
    train = Interactions.of(["a", "a", "a", "b", "b"], ["x", "y", "z", "x", "x"], [1.0] * 5)
    valid = Interactions.of(["b"], ["x"], [1.0])
    test = Interactions.of(["c", "b", "b"], ["x", "x", "x"], [1.0, 1.0, 1.0])
    report = check(Dataset.of("toy", train, valid, test))
    assert (report.users, report.items) == (3, 3)
    assert report.interactions == {"train": 5, "valid": 1, "test": 3}
    assert report.sparsity == pytest.approx(5 / 9)
    assert report.duplicates == {"train": 1, "valid": 0, "test": 1}
    assert report.shared == {"train, valid": 1, "train, test": 1, "valid, test": 1}
    assert report.cold == {"users": 1, "items": 0, "interactions": 1}
    said = " ".join(report.findings)
    for sentence in (
        "1 rows of train repeat",
        "1 pairs are in both train and test.",
        "1 users of the test do not occur",
        "column train value has only one value",
        "1 users have every item",
    ):
        assert sentence in said


def test_a_good_dataset_has_no_findings() -> None:
    report = check(simulate(100, 100, 2000).dataset)
    assert report.findings == []
    assert report.interactions["valid_clean"] < report.interactions["valid"]
    assert json.loads(json.dumps(report.to_dict()))["sparsity"] == report.sparsity


def test_adressa(shared_data: Path) -> None:
    report = check(read_split_folder(shared_data / "adressa"))
    assert report.interactions == {"train": 419491, "valid": 43262, "test": 18632, "test_noisy": 10000}
    assert report.duplicates == {"train": 0, "valid": 0, "test": 604, "test_noisy": 0}
    assert report.shared["train, test"] == 191
    assert report.shared["valid, test"] == 78
    assert report.shared["train, valid"] == 1132
    assert report.cold == {"users": 4818, "items": 122, "interactions": 11534}
    assert "604 rows of test repeat a (user, item) pair." in report.findings


def test_movielens(shared_data: Path) -> None:
    report = check(read_split_folder(shared_data / "ml-100k"))
    assert (report.users, report.items) == (943, 1611)
    assert report.shared["valid, test"] == 1707  # the clean valid pairs are inside the published test
