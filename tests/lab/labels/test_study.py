"""Studies continue where they stopped."""

from __future__ import annotations

import pytest

from accord.comparing.results import read_lines
from accord.errors import InputError
from accord_lab.labels.study import add_missing, require_labels
from helpers import small_data


def test_lines_are_written_one_by_one_and_only_the_missing_are_made(tmp_path):
    file = tmp_path / "x.jsonl"

    def stops(missing):
        for key in missing:
            if key["draw"] == 2:
                raise KeyboardInterrupt
            yield key | {"value": 0.5}

    keys = [{"draw": number} for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        add_missing(file, keys, stops)
    assert [line["draw"] for line in read_lines(file)] == [0, 1]
    made = []

    def make(missing):
        for key in missing:
            made.append(key["draw"])
            yield key | {"value": 0.25}

    lines = add_missing(file, keys, make)
    assert made == [2, 3]
    assert [line["value"] for line in lines] == [0.5, 0.5, 0.25, 0.25]
    assert lines == read_lines(file) == add_missing(file, keys, pytest.fail)


def test_data_without_labels_is_refused():
    with pytest.raises(InputError, match=r"has no labels to draw from; give --labels, as 'rating>=4'"):
        require_labels(small_data())
