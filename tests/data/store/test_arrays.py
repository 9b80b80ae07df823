"""Arrays in files: appended to, mapped, and checked by size."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from accord.data.store.store import ArrayWriter, ids_of, interactions_of, mapped
from accord.errors import InputError


def test_arrays_grow_and_are_mapped(tmp_path: Path) -> None:
    with closing(ArrayWriter(tmp_path)) as arrays:
        arrays.add("numbers", np.arange(3))
        arrays.add("numbers", np.arange(3, 5))
        arrays.add("none", np.empty(0, np.int32))
        described = arrays.sync()
    assert described == {"numbers": ("<i8", 5), "none": ("<i4", 0)}
    found = mapped(tmp_path, described, tmp_path)
    assert found["numbers"].tolist() == [0, 1, 2, 3, 4]
    assert len(found["none"]) == 0


def test_an_array_of_another_size_is_damaged(tmp_path: Path) -> None:
    with closing(ArrayWriter(tmp_path)) as arrays:
        arrays.add("numbers", np.arange(3))
        described = arrays.sync()
    (tmp_path / "numbers.bin").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"damaged \(numbers\.bin has 4 bytes, not 24\)"):
        mapped(tmp_path, described, tmp_path)
    (tmp_path / "numbers.bin").unlink()
    with pytest.raises(InputError, match=r"damaged \(numbers\.bin is missing\)"):
        mapped(tmp_path, described, tmp_path)


@pytest.mark.parametrize("ids", [[-5, 3, 2**40], ["", "a", "ü\U0001f600"]])
def test_ids_of_either_type_come_back(tmp_path: Path, ids: list[int] | list[str]) -> None:
    with closing(ArrayWriter(tmp_path)) as arrays:
        arrays.add_ids("user_ids", pa.array(["before", *ids] if isinstance(ids[0], str) else [1, *ids])[1:])
        described = arrays.sync()
    assert ids_of(mapped(tmp_path, described, tmp_path), "user_ids").ids.to_pylist() == ids


def test_rows_keep_their_columns_and_their_matrix() -> None:
    arrays = {
        "user": np.array([0, 0, 1], np.int32),
        "item": np.array([0, 2, 1], np.int32),
        "value": np.array([4.0, np.nan, 5.0]),
        "ptr": np.array([0, 2, 3]),
    }
    ids = ids_of({"u": np.array([10, 20])}, "u"), ids_of({"i": np.array([7, 8, 9])}, "i")
    rows = interactions_of(arrays, ids, {"user": "who", "item": "what", "value": "stars"}, missing=True)
    assert rows.table.to_pydict() == {"user": [10, 10, 20], "item": [7, 9, 8], "value": [4.0, None, 5.0]}
    assert rows.source_name("value") == "stars"
    assert rows.stored is not None
    assert rows.stored.counts.tolist() == [2, 1]
