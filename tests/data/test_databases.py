"""Logs out of PostgreSQL, SQLite and DuckDB, and tables into them."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest

import accord
import postgres
from accord.data.databases import Database, Query, Target, database_of, is_database, without_password
from accord.data.load import load
from accord.data.read import read_table
from accord.data.store.prepare import prepare
from accord.errors import InputError
from commands import run
from helpers import small_data
from logs import ROWS, rows

SELECT = "select user_id, item_id, rating, timestamp from clicks order by timestamp;"
LISTS = pa.table({"user": ["a", "b"], "rank": pa.array([1, 1], pa.int32()), "score": pa.array([0.5, 1], pa.float32())})


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    folder = postgres.programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgres.server(folder) as uri:
        yield uri


@pytest.fixture(params=["postgresql", "sqlite", "duckdb"])
def uri(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the rows of `ROWS` in a table `clicks`."""
    table = "create table clicks (user_id text, item_id text, rating int, timestamp bigint)"
    insert = "insert into clicks values " + ", ".join(str((*row[:2], int(row[2]), row[3])) for row in ROWS)
    if request.param == "postgresql":
        found: str = request.getfixturevalue("postgresql")
        monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(found) as connection, connection.cursor() as cursor:
            for sql in ("drop table if exists clicks", "drop table if exists lists", table, insert):
                cursor.execute(sql)
            connection.commit()
        return found
    path = tmp_path / f"shop.{request.param}"
    connect = sqlite3.connect if request.param == "sqlite" else duckdb.connect
    connection = connect(str(path))
    connection.execute(table)
    connection.execute(insert)
    connection.commit()
    connection.close()
    return f"{request.param}:///{path}"


def table_of(uri: str, name: str) -> str:
    address, mark, options = uri.partition("?")
    return f"{address}/{name}{mark}{options}"


def held(uri: str, sql: str = 'select "user", "rank", "score" from lists order by "user"') -> list[dict[str, object]]:
    query = Query.of(uri, sql)
    return [row for batch in query.batches(query.names()) for row in batch.to_pylist()]


def test_the_rows_of_a_query(uri: str) -> None:
    found, notes = read_table(Query.of(uri, SELECT))
    assert rows(found) == ROWS
    assert "user column 'user_id'" in notes[0]
    assert "user column 'user_id'" in notes[0]


def test_load_and_prepare(uri: str, tmp_path: Path) -> None:
    asked = load(uri, query=SELECT, split="random", ratios=(1, 0, 0))
    assert set(rows(asked.train)) == set(ROWS)
    store = prepare(uri, tmp_path / "store", query=SELECT)
    assert set(rows(store.interactions)) == set(ROWS)
    assert store.header.name == asked.name


@pytest.mark.parametrize("sql", ["select * from nowhere", "selec 1", "select user_id from clicks where"])
def test_a_query_that_fails(uri: str, sql: str) -> None:
    with pytest.raises(InputError, match="; correct the query, the address or the rights") as caught:
        read_table(Query.of(uri, sql))
    assert "\n" not in str(caught.value)


def test_a_query_of_columns_named_alike(uri: str, tmp_path: Path) -> None:
    sql = "select user_id, item_id, item_id as user_id from clicks"
    for read in (lambda: load(uri, query=sql), lambda: prepare(uri, tmp_path / "store", query=sql)):
        with pytest.raises(InputError, match=": 2 columns are named 'user_id'; rename all but the one to read"):
            read()


def test_a_database_is_read_again_while_an_error_is_looked_at(uri: str) -> None:
    with pytest.raises(InputError) as kept:
        load(uri, query="select user_id, item_id, item_id as user_id from clicks")
    assert kept.tb is not None, "it holds on to all that was open"
    assert set(rows(load(uri, query=SELECT, split="random", ratios=(1, 0, 0)).train)) == set(ROWS)


def test_a_database_needs_a_query(uri: str) -> None:
    with pytest.raises(InputError, match="is a database; say what to read with query="):
        load(uri)
    with pytest.raises(InputError, match=r"clicks\.csv is no database, so it takes no query"):
        load("clicks.csv", query=SELECT)


def test_a_table_is_written_whole_or_not_at_all(uri: str) -> None:
    target = Target.parse(table_of(uri, "lists"))
    target.write(LISTS.schema, iter(LISTS.to_batches()))
    assert held(uri) == LISTS.to_pylist()
    with pytest.raises(InputError, match="has a table 'lists' already; give if_exists='replace' or append"):
        target.write(LISTS.schema, iter(LISTS.to_batches()))

    def breaks() -> Iterator[pa.RecordBatch]:
        yield from LISTS.to_batches()
        raise InputError("no more users")

    for mode in ("append", "replace"):
        with pytest.raises(InputError, match=r"^no more users$"):
            target.write(LISTS.schema, breaks(), mode)
        assert held(uri) == LISTS.to_pylist()
    target.write(LISTS.schema, iter(LISTS.slice(1).to_batches()), "append")
    assert [row["user"] for row in held(uri)] == ["a", "b", "b"]
    target.write(LISTS.schema, iter(LISTS.slice(1).to_batches()), "replace")
    assert [row["user"] for row in held(uri)] == ["b"]


def test_from_a_table_to_a_table(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small_data().train.table
    log = pa.table({"user_id": log.column("user"), "item_id": log.column("item")})
    Target.parse(table_of(uri, "seen")).write(log.schema, iter(log.to_batches()), "replace")
    out = str(tmp_path / "run")
    words = ("train", uri, "--query", "select * from seen", "--model", "ease", "--out", out)
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 0, err
    to = table_of(uri, "lists")
    code, _, err = run(monkeypatch, capsys, "recommend", out, "--all", "--k", "3", "--to", to)
    assert code == 0, err
    lists = accord.Recommender.load(out).recommend(None, 3)
    assert held(uri, 'select "user", item from lists order by "user", "rank"') == sorted(
        lists.select(["user", "item"]).to_pylist(), key=lambda row: row["user"]
    )
    code, _, err = run(monkeypatch, capsys, "recommend", out, "--all", "--to", to)
    assert code == 2
    assert "give --if-exists replace or append" in err


def test_types_that_only_a_database_has(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    sql = """select * from (values
        ('6b29fc40-ca47-1067-b31d-00dd010662da'::uuid, 1::smallint, 2.5::numeric, timestamptz '2021-01-01 00:00:01+00'),
        ('7b29fc40-ca47-1067-b31d-00dd010662da'::uuid, 2::smallint, null, timestamptz '2021-01-01 00:00:02+00')
    ) as log (user_id, item_id, rating, ts)"""
    found, _ = read_table(Query.of(postgresql, sql))
    assert rows(found) == [
        ("6b29fc40-ca47-1067-b31d-00dd010662da", 1, 2.5, 1609459201),
        ("7b29fc40-ca47-1067-b31d-00dd010662da", 2, None, 1609459202),
    ]


def test_a_password_from_a_passfile_and_never_in_a_sentence(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    passfile = tmp_path / "passfile"
    passfile.write_text(f"*:*:*:{postgres.USER}:{postgres.PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert Query.of(postgresql, "select 1 as one").names() == ["one"]
    monkeypatch.delenv("PGPASSFILE")
    given = postgresql.replace("@", f":{quote(postgres.PASSWORD, safe='')}@", 1)
    assert Query.of(given, "select 1 as one").names() == ["one"]
    for wrong in (given.replace("geheim", "geheimnis"), given):
        query = Query.of(wrong, "select * from geheim where x = 'geheim'")
        with pytest.raises(InputError) as caught:
            query.names()
        said = f"{caught.value} {query} {query.label}"
        assert postgres.PASSWORD not in said
        assert quote(postgres.PASSWORD, safe="") not in said
        assert "geheimnis" not in said


def test_a_password_is_not_in_the_run_folder(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small_data().train.table
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    Target.parse(table_of(postgresql, "public.seen")).write(log.schema, iter(log.to_batches()), "replace")
    monkeypatch.delenv("PGPASSWORD")
    given = postgresql.replace("@", f":{quote(postgres.PASSWORD, safe='')}@", 1)
    words = (
        "train",
        given,
        "--query",
        'select "user", item from seen',
        "--model",
        "ease",
        "--out",
        str(tmp_path / "run"),
    )
    code, out, err = run(monkeypatch, capsys, *words)
    assert code == 0, err
    assert "geheim" not in out + err
    for file in (tmp_path / "run").rglob("*"):
        assert b"geheim" not in file.read_bytes(), file
    command = json.loads((tmp_path / "run" / "metrics.json").read_text())["command"]
    assert f"postgresql://{postgres.USER}@/" in command


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:pw@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:p:w@host/db?sslmode=require", "postgresql://ann@host/db?sslmode=require"),
        ("postgresql://host/db?user=ann&password=pw", "postgresql://host/db?user=ann"),
        ("failed: postgresql://ann:pw@host/db refused", "failed: postgresql://ann@host/db refused"),
        ("clicks.csv", "clicks.csv"),
        ("s3://bucket/a@b.parquet", "s3://bucket/a@b.parquet"),
    ],
)
def test_passwords_are_left_out(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_what_is_a_database(tmp_path: Path) -> None:
    assert database_of("sqlite:///a/b.db") == Database("sqlite", "a/b.db", "sqlite:///a/b.db")
    assert database_of("duckdb:////a/b.x") == Database("duckdb", "/a/b.x", "duckdb:////a/b.x")
    assert database_of(tmp_path / "log.csv") is None
    assert not is_database("postgresql")
    (tmp_path / "shop.db").touch()
    assert database_of(tmp_path / "shop.db") is not None
    with pytest.raises(InputError, match="names no file"):
        database_of("sqlite://")
    with pytest.raises(InputError, match="there is no such file"):
        Query.of(f"sqlite:///{tmp_path}/none.db", "select 1").names()


@pytest.mark.parametrize(
    "text", ["lists", "postgresql://host/", "sqlite:///a.db/li sts", "sqlite:///a.db/x;drop", "s3://a/b"]
)
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(InputError, match="write it as postgresql://HOST/DATABASE/TABLE"):
        Target.parse(text)


def test_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.duckdb").touch()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"reading from duckdb needs a driver: pip install 'accord\[sql\]'"):
        Query.of(str(tmp_path / "a.duckdb"), "select 1").names()
