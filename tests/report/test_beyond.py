"""What lists are like besides accurate, counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from accord.data.load import load
from accord.fitting import fit
from accord.report.sections import beyond_accuracy, described

LOG = pa.table({"user": ["a", "a", "b", "b", "c", "d"], "item": ["w", "x", "w", "y", "w", "z"]})
LISTS = pa.table({"user": ["a", "a", "b", "b"], "item": ["w", "y", "w", "x"]})
INFO = pa.table({"title": list("wxyz"), "genre": ["war|sea", "war", None, "sea"], "year": [1, 2, 3, 4]})


@pytest.fixture(scope="module")
def made():
    return fit(load(LOG, ratios=(1, 0, 0)), "popularity", device="cpu")


def test_lists_are_counted_against_the_log(made):
    found = beyond_accuracy(made, LISTS)
    assert found["coverage"] == 3 / 4
    assert found["novelty"] == pytest.approx(-(2 * math.log2(3 / 4) + 2 * math.log2(1 / 4)) / 4)
    assert found["popularity"] == (3 + 1 + 3 + 1) / 4
    assert found["popularity of the log"] == (3 * 3 + 1 + 1 + 1) / 6
    assert "similarity" not in found
    assert described(found, 2) == (
        "lists of 2: coverage 75.0%, novelty 1.21 bits, popularity 2.0 interactions an item (the log: 2.0)"
    )


def test_items_of_a_list_are_alike_by_their_attributes(made):
    titled = fit(replace(load(LOG, ratios=(1, 0, 0)), item_info=INFO), "popularity", device="cpu")
    assert beyond_accuracy(titled, LISTS)["similarity"] == pytest.approx((0 + 1 / math.sqrt(2)) / 2)
    assert beyond_accuracy(titled, LISTS.slice(0, 1))["similarity"] == 0, "nothing to be alike to"
