from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.interactions import IdMap
from accord.data.store import sorted_ids


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=12), min_size=1, max_size=5), st.integers(1, 4))
def test_runs_merge_into_one_sorted_list(tmp_path_factory: pytest.TempPathFactory, lists: Any, block: int) -> None:
    folder = tmp_path_factory.mktemp("runs")
    known = [IdMap.of(pa.array(ids, pa.string())).ids for ids in lists]
    paths = [folder / str(number) for number in range(len(known))]
    for path, ids in zip(paths, known, strict=True):
        sorted_ids.write_ids(path, ids, block)
    merged, rows = [], [list[int]() for _ in known]
    for step in sorted_ids.merged(paths):
        merged += step.ids.to_pylist()
        for number, own in step.rows:
            rows[number] += own.tolist()
    assert merged == IdMap.of(*known).ids.to_pylist()
    for ids, own in zip(known, rows, strict=True):
        assert [merged[row] for row in own] == ids.to_pylist()


def test_a_run_is_read_back_whole(tmp_path: Path) -> None:
    for ids in (pa.array([3, 1, None, 7]), pa.array(["ü", "", "b"]), pa.array([], pa.int64())):
        sorted_ids.write_ids(tmp_path / "run", ids, at_once=2)
        assert sorted_ids.read_ids(tmp_path / "run").equals(ids)


def test_the_place_of_each_id_among_the_sorted_ones() -> None:
    ids, places = sorted_ids.place_of(pa.array([30, 10, None, 30, 20]))
    assert ids.to_pylist() == [10, 20, 30]
    assert places.tolist() == [2, 0, -1, 2, 1]
