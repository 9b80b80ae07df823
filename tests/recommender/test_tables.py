"""Recommendations and ids as tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.data.interactions import IdMap
from accord.errors import InputError
from accord.recommender.tables import as_ids, of_lists, require_count

NUMBERS, NAMES = IdMap(pa.array([5, 6, 7])), IdMap(pa.array(["a", "b"]))


@pytest.mark.parametrize(
    ("asked", "known", "found"),
    [
        ([6, 5], NUMBERS, [6, 5]),
        (["6", "5"], NUMBERS, [6, 5]),
        (["6", "x"], NUMBERS, ["6", "x"]),
        ([6, "x"], NUMBERS, ["6", "x"]),
        ([6], NAMES, ["6"]),
        (pa.chunked_array([["b"], ["a"]]), NAMES, ["b", "a"]),
    ],
)
def test_ids_are_of_the_type_of_the_runs(asked, known, found):
    assert as_ids("users", asked, known).to_pylist() == found


@pytest.mark.parametrize("given", [5, "a", 2.5, np.int64(5)])
def test_one_id_is_no_list_of_ids(given):
    with pytest.raises(InputError, match=r"^users is .*, and a list of ids is needed; give \["):
        as_ids("users", given, NUMBERS)


@pytest.mark.parametrize("given", [0, -1, 2.5, "3", True, None])
def test_a_count_is_a_whole_number_from_one_up(given):
    with pytest.raises(InputError, match=r"^k is .*; give a whole number from 1 up.$"):
        require_count("k", given)
    assert require_count("k", np.int64(3)) == 3


def test_places_without_an_item_are_no_rows():
    scores = np.array([[2.0, 1.0], [3.0, -np.inf]])
    table = of_lists(pa.array(["a", "b"]), NUMBERS, np.array([[0, 2], [1, 0]]), scores, ["model", "popularity"])
    assert table.to_pylist() == [
        {"user": "a", "rank": 1, "item": 5, "score": 2.0, "source": "model"},
        {"user": "a", "rank": 2, "item": 7, "score": 1.0, "source": "model"},
        {"user": "b", "rank": 1, "item": 6, "score": 3.0, "source": "popularity"},
    ]
