"""The log that is audited: its parts, its rows, and what its values say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from accord.auditing.health import health
from accord.auditing.interaction_log import open_log
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
