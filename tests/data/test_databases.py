"""Logs out of PostgreSQL, SQLite and DuckDB, and tables into them."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest

import accord
import postgres
from accord.data.databases import Database, Query, Target, database_of, is_database, short_reason, without_password
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


def held(uri: str, sql: str = 'select "user", "rank", "score" from lists order by "user"') -> list[dict[str, object]]:
    query = Query.of(uri, sql)
    return [row for batch in query.batches(query.schema().names) for row in batch.to_pylist()]


def test_the_rows_of_a_query(uri: str) -> None:
    found, notes = read_table(Query.of(uri, SELECT))
    assert rows(found) == ROWS
    assert "user column 'user_id'" in notes[0]


def test_load_and_prepare(uri: str, tmp_path: Path) -> None:
    asked = load(uri, query=SELECT, split="random", ratios=(1, 0, 0))
    assert set(rows(asked.train)) == set(ROWS)
    store = prepare(uri, tmp_path / "store", query=SELECT)
    assert set(rows(store.interactions)) == set(ROWS)
    assert store.header.name == asked.name


@pytest.mark.parametrize("uri", ["sqlite"], indirect=True)
def test_a_query_is_made_once_for_the_log_and_its_labels(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table may change meanwhile."""
    made, real = [], Query.batches
    monkeypatch.setattr(Query, "batches", lambda self, names: made.append(names) or real(self, names))
    given = {"split": "random", "ratios": (1, 0, 0), "columns": {"user": "user_id", "item": "item_id"}}
    labelled = load(uri, query=SELECT, labels="rating>=4", **given)
    assert len(made) == 1
    alone = load(uri, query=SELECT, **given)
    assert labelled.name == alone.name
    assert labelled.train.without("label").table.equals(alone.train.table)
    assert set(labelled.train.column("label")) <= {0, 1}


@pytest.mark.parametrize("sql", ["select * from nowhere where 1 = 'geheim'", "selec 1", "select x from clicks where"])
def test_a_query_that_fails(uri: str, sql: str) -> None:
    with pytest.raises(InputError, match="; correct the query, the address or the rights") as caught:
        read_table(Query.of(uri, sql))
    assert "\n" not in str(caught.value)
    assert not re.search(r"[A-Z]+_[A-Z]+|\[\w+\]", str(caught.value)), "no code of the driver"
    assert "geheim" not in str(caught.value), "the query is not repeated, whatever it says"


def test_a_query_of_columns_named_alike(uri: str, tmp_path: Path) -> None:
    sql = "select user_id, item_id, item_id as user_id from clicks"
    for read in (lambda: load(uri, query=sql), lambda: prepare(uri, tmp_path / "store", query=sql)):
        with pytest.raises(
            InputError, match=": 2 columns are named 'user_id'; rename all but the one to read"
        ) as caught:
            read()
        assert str(caught.value).startswith(f"{Query.of(uri, sql).label}: ")


def test_the_columns_of_a_query_are_known_before_a_row_is_read(uri: str) -> None:
    fails = {"postgresql": "cast(item_id as int)", "sqlite": "json(item_id)", "duckdb": "error(item_id)"}
    sql = f"select user_id, {fails[uri.partition(':')[0]]} as item_id from clicks"
    assert Query.of(uri, sql).schema().names == ["user_id", "item_id"]
    with pytest.raises(InputError, match="; correct the query, the address or the rights"):
        held(uri, sql)


def test_a_database_is_read_again_while_an_error_is_looked_at(uri: str) -> None:
    with pytest.raises(InputError) as kept:
        load(uri, query="select user_id, item_id, item_id as user_id from clicks")
    assert kept.tb is not None, "it holds on to all that was open"
    assert set(rows(load(uri, query=SELECT, split="random", ratios=(1, 0, 0)).train)) == set(ROWS)


def test_a_database_needs_a_query(uri: str) -> None:
    with pytest.raises(InputError, match=r"is a database; say what to read with query=.*…'\.$"):
        load(uri)
    with pytest.raises(InputError, match=r"clicks\.csv is not a database, so it takes no query"):
        load("clicks.csv", query=SELECT)


def test_a_table_is_written_whole_or_not_at_all(uri: str) -> None:
    target = Target.of(uri, "lists")
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


def test_appended_rows_make_the_table_that_is_missing(uri: str) -> None:
    Target.of(uri, "lists").write(LISTS.schema, iter(LISTS.to_batches()), "append")
    assert held(uri) == LISTS.to_pylist()


def test_a_database_that_an_option_names(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    to = postgresql.replace("/postgres?", "?dbname=postgres&")
    Target.of(to, "lists").write(LISTS.schema, iter(LISTS.to_batches()), "replace")
    assert held(postgresql) == LISTS.to_pylist()


def test_from_a_table_to_a_table(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small_data().train.table
    log = pa.table({"user_id": log.column("user"), "item_id": log.column("item")})
    Target.of(uri, "seen").write(log.schema, iter(log.to_batches()), "replace")
    out = str(tmp_path / "run")
    words = ("train", uri, "--query", "select * from seen", "--model", "ease", "--out", out)
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 0, err
    to = ("--to", uri, "--table", "lists")
    code, _, err = run(monkeypatch, capsys, "recommend", out, "--all", "--k", "3", *to)
    assert code == 0, err
    lists = accord.Recommender.load(out).recommend(None, 3)
    assert held(uri, 'select "user", item from lists order by "user", "rank"') == sorted(
        lists.select(["user", "item"]).to_pylist(), key=lambda row: row["user"]
    )
    code, _, err = run(monkeypatch, capsys, "recommend", out, "--all", *to)
    assert code == 2
    assert "give --if-exists replace or append" in err
    assert run(monkeypatch, capsys, "recommend", out, "--all", *to, "--if-exists", "replace")[0] == 0
    code, _, err = run(monkeypatch, capsys, "recommend", out, "--all", *to[2:])
    assert (code, "--table goes with --to" in err) == (2, True)


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


def test_a_column_of_timestamps_holds_the_times_whatever_its_name(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    sql = """select u as user_id, i as item_id,
        timestamptz '2021-01-01 00:00:01+00' + (u * 7 + i * 13) % 50 * interval '1 day' as bought {}
        from generate_series(1, 20) as u, generate_series(1, 20) as i"""
    data = load(postgresql, query=sql.format(""))
    assert data.is_split_at_a_moment
    assert data.train.source_name("time") == "bought"
    several = load(postgresql, query=sql.format(", now() as sent"))
    assert "split random (no column was read as times)." in several.notes
    assert any("not used: 'bought', 'sent'" in note for note in several.notes)


def test_a_password_from_a_passfile_and_never_in_a_sentence(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    passfile = tmp_path / "passfile"
    passfile.write_text(f"*:*:*:{postgres.USER}:{postgres.PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert Query.of(postgresql, "select 1 as one").schema().names == ["one"]
    monkeypatch.delenv("PGPASSFILE")
    given = postgresql.replace("@", f":{quote(postgres.PASSWORD, safe='')}@", 1)
    assert Query.of(given, "select 1 as one").schema().names == ["one"]
    for wrong in (given.replace("geheim", "geheimnis"), given):
        query = Query.of(wrong, "select * from geheim where x = 'geheim'")
        with pytest.raises(InputError) as caught:
            query.schema()
        said = f"{caught.value} {query} {query.label}"
        assert postgres.PASSWORD not in said
        assert quote(postgres.PASSWORD, safe="") not in said
        assert "geheimnis" not in said


def test_a_password_is_not_in_the_run_folder(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small_data().train.table
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    Target.of(postgresql, "public.seen").write(log.schema, iter(log.to_batches()), "replace")
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
        ("postgresql://host/db?passfile=/home/ann/pw&sslpassword=pw", "postgresql://host/db"),
        ("postgresql://ann:a%20b c@host/db", "postgresql://ann@host/db"),
        ("a postgresql://host/db?passfile=/pw&sslpassword=pw b", "a postgresql://host/db?passfile=…&sslpassword=… b"),
        ("failed: postgresql://ann:pw@host/db refused", "failed: postgresql://ann@host/db refused"),
        ("clicks.csv", "clicks.csv"),
        ("s3://bucket/a@b.parquet", "s3://bucket/a@b.parquet"),
    ],
)
def test_passwords_are_left_out(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_what_a_library_says_goes_on_in_a_sentence() -> None:
    said = "no answer.\n  From postgresql://ann:pw@host/db."
    assert short_reason(OSError(said)) == "no answer. From postgresql://ann@host/db"


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
        Query.of(f"sqlite:///{tmp_path}/none.db", "select 1").schema()


@pytest.mark.parametrize(
    ("to", "table", "message"),
    [
        ("lists", "lists", "to='lists': write it as postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE."),
        ("s3://a/b", "lists", "to='s3://a/b': write it as postgresql://HOST/DATABASE"),
        ("postgresql://ann:pw@host", "lists", "postgresql://ann@host names no database; write it as postgresql://HOST"),
        ("postgresql://host/?user=ann", "lists", "postgresql://host?user=ann names no database"),
        ("postgresql://ann:pw@host/shop", None, "postgresql://ann@host/shop: no table is named; give table='recommend"),
        ("sqlite:///a.db", None, "sqlite:///a.db: no table is named; give table='recommendations'."),
        ("duckdb:///a.db", "li sts", "duckdb:///a.db: 'li sts' cannot be the name of a table; give table="),
        ("sqlite:///a.db", "x;drop", "'x;drop' cannot be the name of a table"),
        (
            "postgresql://ann:pw@host/shop/lists?sslmode=require",
            None,
            "postgresql://ann@host/shop/lists has a table after its database; "
            "give to='postgresql://ann@host/shop?sslmode=require' table='lists'.",
        ),
    ],
)
def test_what_is_no_table(to: str, table: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Target.of(to, table)
    assert message in str(caught.value)


@pytest.mark.parametrize("uri", ["sqlite", "duckdb"], indirect=True)
def test_a_table_after_a_file(uri: str) -> None:
    for table in (None, "lists"):
        with pytest.raises(InputError) as caught:
            Target.of(f"{uri}/lists", table)
        assert f"give to='{uri}' table='lists'." in str(caught.value)


def test_nothing_is_replaced_where_the_database_the_role_or_the_schema_is_missing(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    monkeypatch.setenv("PGDATABASE", "postgres")
    wrong = {
        postgresql.replace(
            "/postgres?", "/nodb?"
        ): 'database "nodb" does not exist; correct the address or the rights.',
        postgresql.replace(
            f"//{postgres.USER}@", "//nobody@"
        ): 'authentication failed for user "nobody"; correct the ad',
        postgresql.replace("/postgres?", "?"): "names no database; write it as postgresql://HOST/DATABASE.",
    }
    before = held(postgresql, "select table_schema, table_name from information_schema.tables")
    for address, message in wrong.items():
        for mode in ("fail", "replace", "append"):
            with pytest.raises(InputError) as caught:
                Target.of(address, "lists").write(LISTS.schema, iter(LISTS.to_batches()), mode)
            assert message in str(caught.value)
            assert "if_exists" not in str(caught.value)
    assert held(postgresql, "select table_schema, table_name from information_schema.tables") == before


@pytest.mark.parametrize("uri", ["postgresql", "duckdb"], indirect=True)
def test_a_schema_that_is_missing_is_no_table_that_exists(uri: str) -> None:
    with pytest.raises(InputError, match=r"chema .*nowhere.* does not exist.*; correct the table or the rights\."):
        Target.of(uri, "nowhere.lists").write(LISTS.schema, iter(LISTS.to_batches()))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_table_of_a_file_that_is_new(kind: str, tmp_path: Path) -> None:
    uri = f"{kind}:///{tmp_path}/new.db"
    Target.of(uri, "lists").write(LISTS.schema, iter(LISTS.to_batches()))
    assert held(uri) == LISTS.to_pylist()


def test_a_query_changes_nothing(uri: str) -> None:
    with contextlib.suppress(InputError):  # DuckDB opens its file for reading; others do not commit
        held(uri, "delete from clicks returning user_id, item_id")
    with contextlib.suppress(InputError):
        held(uri, "create table made as select 1 as one")
    assert len(held(uri, "select * from clicks")) == len(ROWS)
    with pytest.raises(InputError, match="made"):
        held(uri, "select * from made")


@pytest.mark.parametrize("uri", ["duckdb"], indirect=True)
def test_a_file_that_another_process_reads_and_nobody_may_write(uri: str) -> None:
    path = Path(uri.removeprefix("duckdb:///"))
    path.chmod(0o444)
    before = path.read_bytes()
    words = [
        sys.executable,
        "-c",
        "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True); print(flush=True); input()",
    ]
    with subprocess.Popen([*words, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        assert len(held(uri, "select * from clicks")) == len(ROWS)
        reader.communicate(b"\n")
    batches = Query.of(uri, "select * from clicks").batches(["user_id"])
    next(batches)
    subprocess.run([*words, path], input=b"\n", check=True)  # and one that reads while it is read here
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "repeated"),
    [
        (("@/", ":geheim%ZZ@/"), 'invalid percent-encoded token: "…"'),
        (("@/", ":geheim 9@/"), 'unexpected spaces found in "…"'),
        (("@/", ":geheim@[::1/"), "//accord@[::1/postgres"),
        (("?", "?sslpassword=geheim%ZZ&"), 'invalid percent-encoded token: "…"'),
        (("?", "?passfile=geheim%ZZ&"), 'invalid percent-encoded token: "…"'),
        (("?", "?password=geheim%ZZ&"), 'invalid percent-encoded token: "…"'),
        (("@/", f":{quote(postgres.PASSWORD, safe='')}@/"), 'invalid input syntax for type integer: "…"'),
    ],
)
def test_an_error_that_repeats_what_is_secret(postgresql: str, change: tuple[str, str], repeated: str) -> None:
    """What libpq itself says of an address that it cannot read, and a server of a password that a query has too."""
    query = Query.of(postgresql.replace(*change, 1), f"select cast('{postgres.PASSWORD}' as int) as one")
    with pytest.raises(InputError) as caught:
        query.schema()
    assert repeated in str(caught.value)
    assert "geheim" not in f"{caught.value} {query.database} {query.name}"


def test_a_long_error_is_cut_after_its_secrets(postgresql: str) -> None:
    secret = "geheim" * 60
    query = Query.of(postgresql.replace("@/", f":{secret}%ZZ@/", 1), "select 1 as one")
    with pytest.raises(InputError) as caught:
        query.schema()
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("password", ["p@ss", "pa/ss", "pa?ss", "p@s/s?", "pa?s=1&ss"])
def test_a_password_with_signs_of_an_address(password: str) -> None:
    with pytest.raises(InputError, match=r"write @ / : \? & in a password as %40 %2F.* PGPASSWORD") as caught:
        database_of(f"postgresql://ann:{password}@host/shop")
    assert "ss" not in str(caught.value).replace("address", "").replace("password", "")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_file_in_a_folder_that_is_not_there(kind: str, tmp_path: Path) -> None:
    target = Target.of(f"{kind}:///{tmp_path}/none/shop.db", "lists")
    with pytest.raises(InputError, match=r"there is no folder .*/none; make it, or correct the path\.$"):
        target.write(LISTS.schema, iter(LISTS.to_batches()))


def test_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.duckdb").touch()
    monkeypatch.setitem(sys.modules, "adbc_driver_duckdb", None)
    with pytest.raises(InputError, match=r"reading from duckdb needs a driver: pip install 'accord\[sql\]'"):
        Query.of(str(tmp_path / "a.duckdb"), "select 1").schema()
