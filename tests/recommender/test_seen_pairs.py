"""The pairs in a run folder: values and weights come back, damage is one sentence."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accord
from accord.data.interactions import IdMap, Interactions
from accord.errors import InputError
from accord.recommender import seen_pairs
from accord.recommender.seen_pairs import read_seen, write_seen


def test_a_run_folder_keeps_the_values_that_training_was_not_told(simulation, tmp_path):
    data, folder = simulation.dataset, tmp_path / "run"
    accord.fit(data, "popularity", out=folder)
    again = accord.Recommender.load(folder).trained_on
    assert again.table.select(["user", "item"]).equals(data.train.table.select(["user", "item"]))
    assert (again.column("value") == simulation.is_real).all()
    assert again.source_name("value") == data.train.source_name("value")


USERS, ITEMS = IdMap(pa.array(["a", "b", "c"])), IdMap(pa.array([10, 20, 30, 40]))


def parts(**columns):
    """Three training pairs with columns, and a validation pair without."""
    train = Interactions.of(pa.array(["a", "a", "c"]), pa.array([10, 30, 40]), **columns)
    return {"train": train, "valid": Interactions.of(pa.array(["b"]), pa.array([20]))}


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_pairs_and_their_columns_come_back(at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(seen_pairs, "ROWS_AT_ONCE", at_once)
    path = tmp_path / "seen.parquet"
    write_seen(path, parts(value=[4.0, 5.0, 1.0], time=[2**60 + 1, 3, 2**60], weight=[0.5, 0.0, 2.0]), USERS, ITEMS)
    found = read_seen(path, USERS, ITEMS)
    train, valid = found["train"], found["valid"]
    assert (train.users.to_pylist(), train.items.to_pylist()) == (["a", "a", "c"], [10, 30, 40])
    assert train.column("value").tolist() == [4, 5, 1]
    assert train.column("weight").tolist() == [0.5, 0, 2]
    assert train.column("time").tolist() == [2**60 + 1, 3, 2**60]
    assert (valid.users.to_pylist(), valid.items.to_pylist()) == (["b"], [20])
    write_seen(path, parts(label=pa.array([1.0, None, 0.0])), USERS, ITEMS)
    assert read_seen(path, USERS, ITEMS)["train"].table.column("label").to_pylist() == [1.0, None, 0.0]
    assert pq.read_table(path).column("part").to_pylist() == ["train"] * 3 + ["valid"]


def test_what_was_not_there_does_not_appear(tmp_path):
    write_seen(tmp_path / "seen.parquet", parts(), USERS, ITEMS)
    assert pq.read_schema(tmp_path / "seen.parquet").names == ["user", "item", "part"]
    assert "weight" not in read_seen(tmp_path / "seen.parquet", USERS, ITEMS)["train"].names


def test_without_validation_there_is_an_empty_part(tmp_path):
    given = parts()
    write_seen(tmp_path / "seen.parquet", given | {"valid": given["valid"].slice(0, 0)}, USERS, ITEMS)
    found = read_seen(tmp_path / "seen.parquet", USERS, ITEMS)
    assert (len(found["train"]), len(found["valid"])) == (3, 0)


def test_a_pair_of_somebody_unknown_is_damage(tmp_path):
    write_seen(tmp_path / "seen.parquet", parts(), USERS, ITEMS)
    with pytest.raises(InputError, match=r"seen.parquet is damaged \(it has ids that the run has no rows for\)"):
        read_seen(tmp_path / "seen.parquet", IdMap(pa.array(["a", "b"])), ITEMS)
