"""A store gives what the same log gives in memory, to the last bit however it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from accord.auditing.interaction_log import open_log
from accord.data import read, sampling
from accord.data.columns import Columns
from accord.data.csr import Csr
from accord.data.load import load
from accord.data.sampling import Sampler, TrainingPairs
from accord.data.store.prepare import prepare
from accord.data.store.store import WORK, Store
from accord.errors import InputError
from accord.fitting import fit
from accord.random import generators
from helpers import CPU, random_csr
from logs import assert_same, log_table, without_advice, write_log
from samplers import rule_of


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    "shape", [{}, {"text": True}, {"times": False}, {"gaps": True}], ids=["ints", "text", "no times", "gaps"]
)
def test_a_store_reads_as_the_log_does(tmp_path: Path, in_pieces: None, kind: str, shape: dict[str, Any]) -> None:
    log = write_log(tmp_path / f"log.{kind}", log_table(**shape))
    store = prepare(log, tmp_path / "store")
    assert len(store.interactions) < 700
    for split in ["random", "chronological", "leave-last-out", "global-time"] if shape.get("times", True) else ["auto"]:
        for clean in (None, "rating>=4"):
            asked = {"split": split, "clean": clean, "seed": 3, "ratios": (0.7, 0.1, 0.2)}
            for _ in range(2):  # made, and found again
                assert_same(load(log, **asked), load(tmp_path / "store", **asked))
    assert not (tmp_path / "store" / WORK).exists()


@pytest.mark.parametrize("split", ["random", "chronological", "global-time:150"])
def test_parts_that_are_not_wanted_are_empty_in_a_store_too(tmp_path: Path, in_pieces: None, split: str) -> None:
    log = write_log(tmp_path / "log.csv", log_table())
    prepare(log, tmp_path / "store")
    for ratios in ((1, 0, 0), (0.8, 0, 0.2)):
        assert_same(load(log, split=split, ratios=ratios), load(tmp_path / "store", split=split, ratios=ratios))


def test_a_store_reads_odd_columns_as_the_log_does(tmp_path: Path, in_pieces: None) -> None:
    lines = [
        f"{user}{'.0' if user % 3 else ''};i{user % 5};{user % 4}.5;{user % 28 + 1:02}/01/2021" for user in range(400)
    ]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["user;item;rating;date", *lines]) + "\n")
    prepare(log, tmp_path / "store")
    dataset = load(log, split="random")
    assert_same(dataset, load(tmp_path / "store", split="random"))
    assert sum("whole numbers" in note or "day-month-year" in note for note in dataset.notes) == 2


# --- use


@pytest.mark.parametrize(
    ("model", "method"), [("gmf", "deca"), ("cdae", "normal"), ("lightgcn", "wbpr"), ("ease", "normal")]
)
def test_training_on_a_store_is_training_on_the_log(tmp_path: Path, model: str, method: str) -> None:
    log = write_log(tmp_path / "log.parquet", log_table())
    prepare(log, tmp_path / "store")
    made = [
        fit(source, model, method, epochs=2, out=tmp_path / f"run-{name}")
        for name, source in (("log", log), ("store", tmp_path / "store"))
    ]
    states = [one.method.state_dict() for one in made]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for one in made:
        one.metrics.pop("seconds")
        for run in one.metrics["runs"]:
            run.pop("train_seconds")
    data = made[0].metrics["dataset"]
    data["notes"] = without_advice(data["notes"])
    assert made[0].metrics == made[1].metrics
    for name in ("seen", "test", "users", "items"):
        tables = [pq.read_table(tmp_path / f"run-{which}" / f"{name}.parquet") for which in ("log", "store")]
        assert tables[0].equals(tables[1])


def test_an_audit_reads_a_store_as_a_log_of_its_rows(tmp_path: Path) -> None:
    table = log_table(text=True)
    merged = read.read_table(table, ordered=True)[0].table.rename_columns(table.column_names)
    log = write_log(tmp_path / "log.parquet", merged)
    prepare(log, tmp_path / "store")
    one, other = open_log(log), open_log(tmp_path / "store")
    assert one.columns.equals(other.columns)
    assert one.clean == other.clean
    assert np.array_equal(one.part, other.part)
    assert_same(one.data, other.data)


@pytest.mark.parametrize("popularity", [None, 0.0, 0.3])
@pytest.mark.parametrize("batching", ["pairs", "users"])
def test_negatives_are_the_same_without_a_table(
    monkeypatch: pytest.MonkeyPatch, popularity: Any, batching: Any
) -> None:
    whole = random_csr(50, 30, 0.2)
    stored = Csr(whole.ptr, whole.items.astype(np.int32), whole.num_items, whole.users.astype(np.int32))
    epochs = []
    for csr, most in ((whole, 2**24), (stored, 0)):
        monkeypatch.setattr(sampling, "LAID_OUT_WHOLE", most)
        sampler = Sampler(
            TrainingPairs.of(csr, CPU), generators([1, 2], "x"), 32, rule_of("unseen", popularity), batching
        )
        epochs.append(list(sampler.epoch()))
        monkeypatch.setattr(sampling, "DRAWN_AT_ONCE", 64)  # of the second: drawn in many parts
    for one, other in zip(*epochs, strict=True):
        assert torch.equal(one.users, other.users)
        assert torch.equal(one.items, other.items)
        assert other.items.dtype == torch.long


# --- what a user can do wrong


def test_stores_that_are_none(tmp_path: Path, store: Path) -> None:
    header = json.loads((store / "store.json").read_text())
    for content, told in (
        ("{", "not the header of a store"),
        ("[]", "not the header of a store"),
        ('{"name": "mine"}', "not the header of a store"),
        (json.dumps(header | {"version": 2}), "a store of version 2, and this Accord reads version 1"),
        (json.dumps(header | {"arrays": {}}), "is damaged"),
    ):
        (store / "store.json").write_text(content)
        with pytest.raises(InputError, match=told):
            load(store)
    (store / "store.json").write_text(json.dumps(header))
    (store / "item.bin").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"damaged \(item.bin has 4 bytes, not \d+\); prepare it again"):
        load(store)
    (store / "item.bin").unlink()
    with pytest.raises(InputError, match=r"damaged \(item.bin is missing\)"):
        load(store)


def test_a_damaged_split_says_what_to_remove(store: Path) -> None:
    load(store)
    (split,) = (store / "splits").iterdir()
    (split / "store.json").write_text("{}")
    with pytest.raises(InputError, match=r"global-time-0.8-0.1-0.1-seed-0 is damaged; remove it"):
        load(store)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"columns": Columns(user="userId")}, "prepared already, so columns cannot be chosen"),
        ({"clean": "dwell>3"}, "has no column 'dwell', which the clean rule names; prepare it with that as columns"),
        ({"split": "middle"}, "unknown split"),
    ],
)
def test_what_cannot_be_asked_of_a_store(store: Path, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        load(store, **asked)


def test_a_store_is_open_without_being_read(store: Path) -> None:
    """Ids and pairs lie in their files: nothing is copied on the way to the training matrix."""
    opened = Store.open(store)
    data = opened.dataset("auto", (0.8, 0.1, 0.1), None, 0)
    train = data.csr(data.train)
    assert train is data.train.stored
    assert isinstance(train.items.base, np.memmap)
    column = data.train.column("item")
    assert column.__array_interface__["data"] == (train.items.__array_interface__["data"][0], True)


# --- what was measured
