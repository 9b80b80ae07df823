"""Recommendations and ids as tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.data.interactions import IdMap
from accord.recommender.tables import ids_asked_for, of_lists, with_ids_of

NUMBERS, NAMES = IdMap(pa.array([5, 6, 7])), IdMap(pa.array(["a", "b"]))


@pytest.mark.parametrize(
    ("asked", "known", "found"),
    [
        (None, NAMES, ["a", "b"]),
        ([6, 5], NUMBERS, [6, 5]),
        (["6", "5"], NUMBERS, [6, 5]),
        (["6", "x"], NUMBERS, ["6", "x"]),
        ([6, "x"], NUMBERS, ["6", "x"]),
        ([6], NAMES, ["6"]),
        (pa.chunked_array([["b"], ["a"]]), NAMES, ["b", "a"]),
    ],
)
def test_ids_are_of_the_type_of_the_runs(asked, known, found):
    assert ids_asked_for(asked, known).to_pylist() == found


def test_places_without_an_item_are_no_rows():
    scores = np.array([[2.0, 1.0], [3.0, -np.inf]])
    table = of_lists(pa.array(["a", "b"]), NUMBERS, np.array([[0, 2], [1, 0]]), scores, ["model", "popularity"])
    assert table.to_pylist() == [
        {"user": "a", "rank": 1, "item": 5, "score": 2.0, "source": "model"},
        {"user": "a", "rank": 2, "item": 7, "score": 1.0, "source": "model"},
        {"user": "b", "rank": 1, "item": 6, "score": 3.0, "source": "popularity"},
    ]


def test_a_table_takes_the_types_of_the_ids():
    table = pa.table({"user": ["a"], "item": pa.array([5], pa.int32()), "value": [1.0]})
    assert with_ids_of(table, NAMES, NUMBERS).schema == pa.schema([("user", pa.string()), ("item", pa.int64())])
