"""Logs in an object store are read as files are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data.load import load
from accord.data.objects import FetchedFiles, is_object, name_of
from accord.data.read import read_table
from accord.errors import InputError
from buckets import bucket
from logs import FRAME, ROWS, rows


def parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    table = pa.table(FRAME)
    header = b"user,item,rating,timestamp\n"
    objects = {
        "logs/day-1.csv": header + b"ann,x,5,10\nbob,y,3,20\n",
        "logs/day-2.csv": header + b"ann,y,1,30\n",
        "table/day=1/a.parquet": parquet(table.slice(0, 2)),
        "table/day=2/b.parquet": parquet(table.slice(2)),
        "table/_SUCCESS": b"",
    }
    with bucket(objects) as found:
        yield found


@pytest.mark.parametrize("place", ["logs/day-*.csv", "table"])
def test_objects_are_read(options: str, place: str) -> None:
    found, notes = read_table(f"s3://shop/{place}?{options}")
    assert rows(found) == ROWS
    assert notes[0].startswith(f"s3://shop/{place}?")


def test_an_object_is_loaded(options: str) -> None:
    dataset = load(f"s3://shop/logs/day-1.csv?{options}", split="random", ratios=(1, 0, 0))
    assert rows(dataset.train) == ROWS[:2]
    assert dataset.name == "day-1"


def test_what_was_fetched_is_removed(options: str) -> None:
    fetched = FetchedFiles(f"s3://shop/logs/day-1.csv?{options}")
    path = fetched.paths[0]
    assert path.is_file()
    del fetched
    assert not path.exists()


def test_what_is_not_there(options: str) -> None:
    for place in ("logs/day-3.csv", "nothing", "logs/night-*.csv"):
        with pytest.raises(InputError, match=r"check the address|is not there"):
            read_table(f"s3://shop/{place}?{options}")
    with pytest.raises(InputError, match="cannot be fetched") as caught:
        read_table("s3://key:geheim@shop/x.csv?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1&nothing=1")
    assert "geheim" not in str(caught.value)


def test_names() -> None:
    assert is_object("s3://shop/log.csv")
    assert is_object("gs://shop/log.csv")
    assert not is_object(Path("s3:/shop/log.csv"))
    assert name_of("s3://shop/logs/day-1.csv.gz?region=x") == "day-1"
    assert name_of("s3://shop/logs/*.csv") == "logs"
