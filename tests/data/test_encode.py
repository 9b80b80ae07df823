from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data import encode, sources, text
from accord.data.columns import Columns
from accord.data.read import read_table
from accord.errors import InputError

NUMBERS = np.random.default_rng(0).integers(0, 25, (2, 200))


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 7)
    monkeypatch.setattr(text, "TEXT_BLOCK", 128)
    monkeypatch.setattr(encode, "ENCODED_AT_ONCE", 5)


def columns(source: Any, given: Columns | None = None) -> list[list[Any]]:
    return [column.to_pylist() for column in read_table(source, given, merge=False)[0].table.columns]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    "ids",
    [
        NUMBERS[0],
        -NUMBERS[0] * 10**15,  # too far apart for a table
        (NUMBERS[0] * 10 - 120).astype(np.int8),
        NUMBERS[0].astype(np.uint64) + np.uint64(5),
        [f"u{number}" for number in NUMBERS[0]],
    ],
)
def test_ids_of_many_batches(tmp_path: Path, ids: Any) -> None:
    frame = pa.table({"user": pa.array(ids), "item": pa.array(NUMBERS[1])})
    pq.write_table(frame, tmp_path / "a.parquet", row_group_size=11)
    for source in (frame, tmp_path / "a.parquet"):
        rows, _ = read_table(source, merge=False)
        assert rows.users.to_pylist() == list(ids)
        assert rows.items.to_pylist() == NUMBERS[1].tolist()
        assert rows.user_ids.ids.to_pylist() == sorted(set(ids))


@pytest.mark.usefixtures("small_batches")
def test_what_ids_are_is_told_by_all_of_them() -> None:
    whole = [*range(2**40, 2**40 + 50)]
    assert columns(pa.table({"user": pa.array([*whole, 2**63], pa.uint64()), "item": range(51)}))[0][0] == str(2**40)
    assert columns(pa.table({"user": [float(number) for number in whole], "item": range(50)}))[0] == whole
    assert columns(pd.DataFrame({"user": [1.0] * 20 + [1.5], "item": range(21)}))[0] == ["1"] * 20 + ["1.5"]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1"] * 40 + ["2.5"], [1.0] * 40 + [2.5]),
        (["1970-01-01 00:00:01"] * 40 + ["1970-01-01 00:00:02.5"], [1.0] * 40 + [2.5]),
        ([" 1 "] * 40 + ["2"], [1] * 40 + [2]),
        (["1"] * 40 + ["1970-01-02"], "has '1970-01-02' in row 41"),
        (["1970-01-02"] * 40 + ["5"], "has '5' in row 41"),
        (["1970-01-02"] * 40 + ["1970-01-02T00:00:00Z"], "has '1970-01-02T00:00:00Z' in row 41"),
        (["1"] * 40 + [" "], "is empty in row 41"),
    ],
)
def test_times_that_change_in_mid_file(tmp_path: Path, times: list[str], expected: list[float] | str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item,time\n" + "".join(f"u{row},{row % 7},{time}\n" for row, time in enumerate(times)))
    if isinstance(expected, list):
        assert columns(path)[2] == expected
        return
    with pytest.raises(InputError, match=expected):
        read_table(path, Columns(time="time"))
    assert not read_table(path)[0].has_time  # only guessed, so left out


@pytest.mark.usefixtures("small_batches")
def test_rows_are_named_from_the_start_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    good = "".join(f"{row},{row % 7},{row % 5}\n" for row in range(100))
    for line, message in (
        (",1,2\n", r"1 row has no user id in column 'user' \(first: row 101\)"),
        ("nan,1,2\nnull,1,2\n", r"2 rows have no user id in column 'user' \(first: row 101\)"),
        ("1,1,much\n", "has 'much' in row 101, which is not a number"),
        ("1,1\n", "Row #102: Expected 3 columns, got 2"),
    ):
        path.write_text("user,item,value\n" + good + line)
        with pytest.raises(InputError, match=message):
            read_table(path, Columns(value="value"))


@pytest.mark.usefixtures("small_batches")
def test_a_header_among_the_rows_is_no_user(tmp_path: Path) -> None:
    """As where files were put one after the other; a user who is called so with another item is one."""
    path = tmp_path / "log.csv"
    path.write_text("user,item\na,x\nuser,y\nb,item\n")
    assert len(read_table(path)[0]) == 3
    path.write_text("user,item\na,x\nuser,y\nuser,item\nb,z\n")
    with pytest.raises(InputError, match=r"log.csv: row 3 is the header line again; remove it\.$"):
        read_table(path)


def test_categories_that_do_not_occur_are_no_ids() -> None:
    names = pd.Categorical(["b", "c", "b"] * 10, categories=["a", "b", "c", "d"])
    for frame in (
        pd.DataFrame({"user": names, "item": range(30)}),
        pl.DataFrame({"user": pl.Series(names.astype(str).tolist(), dtype=pl.Categorical), "item": range(30)}),
    ):
        rows, _ = read_table(frame)
        assert rows.user_ids.ids.to_pylist() == ["b", "c"]
        assert rows.users.to_pylist() == ["b", "c", "b"] * 10
    gaps = pd.DataFrame({"user": pd.Categorical(["b", None, "c"]), "item": range(3)})
    with pytest.raises(InputError, match=r"1 row has no user id in column 'user' \(first: row 2\)"):
        read_table(gaps)


def test_ids_of_no_use() -> None:
    for ids, kind in (([[1], [2]], "list"), ([b"a", b"b"], "binary")):
        with pytest.raises(InputError, match=f"user column 'user' holds {kind}.*; ids must be integers or text"):
            read_table(pa.table({"user": ids, "item": [1, 2]}))
    with pytest.raises(InputError, match="2 rows have no user id"):
        read_table(pa.table({"user": [None, None], "item": [1, 2]}))


ADDED_BYTES = """
import sys, pyarrow.dataset, accord.data.read
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
before = peak()
data = accord.load(sys.argv[1])
assert len(data.csr(data.train).items) > 1_000_000
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells memory as Linux does")
def test_memory_is_that_of_the_rows(tmp_path: Path) -> None:
    """Two million rows under text ids, 110 MB as they are written. With the whole table in memory, ids looked up in it
    and pairs told apart by np.unique it was 600 MB; batch by batch it is 310 MB."""
    rng = np.random.default_rng(0)
    size = 2_000_000
    names = {"user": pa.array([f"customer-{n:08}" for n in range(200_000)])}
    names["item"] = pa.array([f"product-{n:08}" for n in range(20_000)])
    ids = {role: every.take(pa.array(rng.integers(len(every), size=size))) for role, every in names.items()}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**ids, "value": rng.random(size), "time": np.arange(size)}), path)
    done = subprocess.run(
        [sys.executable, "-c", ADDED_BYTES, str(path)], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert int(done.stdout) < 440e6
