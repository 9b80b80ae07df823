"""Arrays in files: appended to, cut back to what is known to be whole, mapped, and checked by size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from accord.data.store.arrays import add_ids, appending, file_of, ids_of, interactions_of, mapped, read_slice
from accord.errors import InputError


def test_arrays_grow_and_are_mapped(tmp_path: Path) -> None:
    with appending(tmp_path) as arrays:
        arrays.add("numbers", np.arange(3))
        arrays.add("numbers", np.arange(3, 5))
        arrays.add("none", np.empty(0, np.int32))
        described = arrays.sync()
    assert described == {"numbers": ("<i8", 5), "none": ("<i4", 0)}
    found = mapped(tmp_path, described, tmp_path)
    assert found["numbers"].tolist() == [0, 1, 2, 3, 4]
    assert len(found["none"]) == 0
    assert read_slice(tmp_path, "numbers", np.int64, 1, 3).tolist() == [1, 2]


def test_what_is_not_known_to_be_whole_is_written_again(tmp_path: Path) -> None:
    with appending(tmp_path) as arrays:
        arrays.add("numbers", np.arange(3))
        described = arrays.sync()
        arrays.add("numbers", np.arange(100))  # the process is stopped before this is described
    with file_of(tmp_path, "numbers").open("ab") as file:
        file.write(b"half")
    with appending(tmp_path, described) as arrays:
        arrays.add("numbers", np.array([7]))
        described = arrays.sync()
    assert mapped(tmp_path, described, tmp_path)["numbers"].tolist() == [0, 1, 2, 7]


def test_an_array_of_another_size_is_damaged(tmp_path: Path) -> None:
    with appending(tmp_path) as arrays:
        arrays.add("numbers", np.arange(3))
        described = arrays.sync()
    file_of(tmp_path, "numbers").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"damaged \(numbers\.bin has 4 bytes, not 24\)"):
        mapped(tmp_path, described, tmp_path)
    file_of(tmp_path, "numbers").unlink()
    with pytest.raises(InputError, match=r"damaged \(numbers\.bin is missing\)"):
        mapped(tmp_path, described, tmp_path)


@pytest.mark.parametrize("ids", [[-5, 3, 2**40], ["", "a", "ü\U0001f600"]])
def test_ids_of_either_type_come_back(tmp_path: Path, ids: list[int] | list[str]) -> None:
    with appending(tmp_path) as arrays:
        for part in (ids[:1], ids[1:]):
            add_ids(arrays, "user_ids", pa.array(part))
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
