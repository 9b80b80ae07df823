"""The log that is audited: its parts, its rows, and what its values say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import accord
from accord.auditing.health import health
from accord.auditing.interaction_log import is_date, open_log
from accord.data import sources
from audit_logs import random_frame
from helpers import dataset, small_data


def test_labels_of_ratings_and_of_zero_and_one():
    log = open_log(random_frame(rating=lambda rng, keys: rng.integers(1, 6, len(keys))))
    values = log.rows.column("value")
    assert (log.truth.real_rule, log.truth.noise_rule, log.clean) == ("value>=4", "value<=2", "value>=4")
    assert np.array_equal(log.truth.labelled, values != 3)
    assert np.array_equal(log.truth.real[log.truth.labelled], values[log.truth.labelled] >= 4)
    assert (log.data.test.column("value") >= 4).all()

    log = open_log(random_frame(label=lambda rng, keys: rng.integers(0, 2, len(keys))))
    assert log.truth.labelled.all()
    assert np.array_equal(log.truth.real, log.rows.column("value") == 1)

    log = open_log(random_frame(liked=lambda rng, keys: rng.integers(0, 3, len(keys)) / 2), labels="liked")
    assert np.array_equal(log.truth.labelled, log.label != 0.5), "a half says neither"
    assert np.array_equal(log.truth.real, log.label == 1)


def test_a_clean_rule_is_the_label():
    log = open_log(random_frame(dwell=lambda rng, keys: rng.exponential(10, len(keys))), clean="dwell>10")
    assert np.array_equal(log.truth.real, log.rows.column("value") > 10)
    assert open_log(random_frame(dwell=lambda rng, keys: rng.exponential(10, len(keys)))).truth is None
    assert open_log(random_frame()).truth is None


def test_a_split_that_came_with_the_data_is_kept(tmp_path):
    log = open_log(small_data())
    assert log.was_split
    assert len(log) == 700
    assert np.bincount(log.part).tolist() == [560, 70, 70]
    assert set(log.columns.column("part").to_pylist()) == {"train", "valid", "test"}
    json.dumps(health(log))


def test_a_validation_left_inside_the_test_is_there_once():
    data = dataset(3, 4, [(0, 0), (1, 1), (2, 2)], [(0, 1)], [(0, 1), (1, 2)], test_noisy=[(0, 1), (1, 2), (2, 3)])
    log = open_log(data)
    assert len(log) == len(log.raw) == 6
    assert np.bincount(log.part).tolist() == [3, 1, 2]


def test_titles_are_found_by_the_ids_of_items():
    data = dataset(2, 3, [(0, 0), (1, 1)], [(0, 1)], [(1, 2)])
    assert open_log(data).titles([0, 2]) == [None, None]
    named = open_log(replace(data, item_info=pa.table({"title": ["zero", None, "two"]})))
    assert named.titles([2, 0, 1, 99]) == ["two", "zero", None, None]


def test_every_pair_is_there_once_and_every_row_as_it_came():
    table = random_frame()
    log = open_log(pa.concat_tables([table, table.slice(0, 5)]))
    assert (len(log), len(log.raw), log.columns.num_rows) == (300, 305, 305)
    assert len(log.csr().items) == 300
    assert sorted(np.unique(log.part)) == [0, 1, 2]


@pytest.mark.parametrize("labels", [None, "liked", "liked>=1"])
def test_a_file_is_opened_once(tmp_path, monkeypatch, labels):
    """With labels too, by an audit as by `accord.load`, and both give the same."""
    path = tmp_path / "log.csv"
    frame = random_frame(liked=lambda rng, keys: rng.integers(0, 2, len(keys)))
    pyarrow.csv.write_csv(
        frame.set_column(0, "user", pa.array(["'=" + one for one in frame["user"].to_pylist()])), path
    )
    opened, original = [], sources.open_path
    monkeypatch.setattr(sources, "open_path", lambda *args: opened.append(args) or original(*args))
    expected = accord.load(path, labels=labels)
    assert len(opened) == 1
    log = open_log(path, labels=labels)
    assert len(opened) == 2
    assert log.data.name == expected.name == "log"
    assert log.data.notes == expected.notes
    assert any("spreadsheet" in note for note in log.data.notes)
    assert log.data.train.table.equals(expected.train.table)
    assert log.columns.column_names == ["user", "item", "liked"]
    assert log.columns["user"][0].as_py().startswith("'="), "as it was written"


START = 1_600_000_000  # 2020-09-13 12:26:40 UTC


def test_seconds_since_1970_are_dates_and_small_numbers_are_not():
    assert is_date(START + np.arange(10))
    assert not is_date(np.arange(10))
    assert not is_date(np.array([]))
    assert not is_date(1000 * (START + np.arange(10)))  # milliseconds
