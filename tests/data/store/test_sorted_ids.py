from __future__ import annotations

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
        sorted_ids.write_run(path, ids, block)
    merged, rows = [], [list[int]() for _ in known]
    for step in sorted_ids.merged(paths):
        merged += step.ids.to_pylist()
        for number, own in step.rows:
            rows[number] += own.tolist()
    assert merged == IdMap.of(*known).ids.to_pylist()
    for ids, own in zip(known, rows, strict=True):
        assert [merged[row] for row in own] == ids.to_pylist()
