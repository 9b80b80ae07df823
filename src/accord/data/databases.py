"""Databases (the extra `sql`): rows of a query, streamed as Arrow batches, and tables written in a transaction."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import pyarrow as pa

from accord.data.columns import refuse_repeated
from accord.errors import Argument, InputError

KINDS = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "duckdb": "duckdb"}
SUFFIXES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb"}
SECRETS = ("password", "sslpassword", "passfile")  # options of a connection that no message shows
BATCH_ROWS = 2**17
LONGEST_REASON = 300
QUERY = Argument("query", "select user_id, item_id from …")
TABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")


@dataclass(frozen=True)
class Database:
    """Where a database is, and what messages call it: the address without its password."""

    kind: str  # postgresql, sqlite or duckdb
    uri: str  # as the driver takes it: a URI, or the path of a file
    label: str

    def __repr__(self) -> str:
        return self.label


@dataclass(frozen=True)
class Query:
    """The log that a query gives."""

    database: Database
    sql: str

    @classmethod
    def of(cls, source: Any, sql: str | None) -> Query:
        database = database_of(source)
        if database is None:
            raise InputError(f"{source} is no database, so it takes no query; leave the query out.")
        if not sql or not sql.strip():
            raise InputError(f"{database.label} is a database; say what to read with ", QUERY, ".")
        return cls(database, sql)

    @property
    def label(self) -> str:
        return self.database.label

    @property
    def name(self) -> str:
        """What to call the log: the name of the database."""
        name = Path(self.database.uri).stem if self.database.kind != "postgresql" else urlsplit(self.database.uri).path
        return re.sub(r"[^\w-]+", "-", name).strip("-") or self.database.kind

    def names(self) -> list[str]:
        """The columns; nothing is read of the rows."""
        with self._reader(limit=True) as rows:
            return list(rows.schema.names)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._reader() as rows, _driver_errors(self.database):
            refuse_repeated(self.label, rows.schema.names)  # SQLite and DuckDB have renamed them in `names`
            for batch in rows:
                yield pa.record_batch([_standard(batch.column(name)) for name in names], names)

    @contextmanager
    def _reader(self, limit: bool = False) -> Iterator[pa.RecordBatchReader]:
        """The rows as they come, with `limit` none of them."""
        sql = f"select * from ({self.sql.strip().rstrip(';')}) as log limit 0" if limit else self.sql
        with (
            _connected(self.database, for_reading=True) as connection,
            closing(_cursor(self.database, connection)) as cursor,
        ):
            with _driver_errors(self.database):
                rows = _rows(self.database, cursor, sql)
            with closing(rows):  # DuckDB opens a file again only when nothing is left of its last connection
                yield rows


def is_database(source: Any) -> bool:
    return isinstance(source, str) and source.partition("://")[0].lower() in KINDS and "://" in source


def database_of(source: Any) -> Database | None:
    """The database of a URI or of a file with the name of one; None for anything else."""
    if is_database(source):
        scheme, _, rest = source.partition("://")
        kind = KINDS[scheme.lower()]
        if kind == "postgresql":
            return Database(kind, source, without_password(source))
        path = unquote(rest.removeprefix("/"))  # sqlite:///relative, sqlite:////absolute
        if not path:
            raise InputError(f"{source} names no file; write it as {kind}:///folder/file.")
        return Database(kind, path, f"{kind}:///{path}")
    if isinstance(source, str | Path) and Path(source).suffix.lower() in SUFFIXES and Path(source).is_file():
        return Database(SUFFIXES[Path(source).suffix.lower()], str(source), str(source))
    return None


def without_password(text: str) -> str:
    """A URI, or any text with URIs in it, without passwords."""
    text = re.sub(r"(\b[a-zA-Z][\w+.-]*://[^\s/@:]*):[^\s@]*@", r"\1@", text)
    if "?" not in text or not is_database(text):
        return re.sub(rf"(?<=[?&])({'|'.join(SECRETS)})=[^&\s]*", r"\1=…", text)
    parts = urlsplit(text)
    shown = [(name, value) for name, value in parse_qsl(parts.query) if name not in SECRETS]
    return urlunsplit(parts._replace(query=urlencode(shown)))


def short_reason(error: Exception) -> str:
    """What a library says, in one line without passwords."""
    return " ".join(without_password(str(error)).split())[:LONGEST_REASON].rstrip(".")


@contextmanager
def _driver_errors(database: Database) -> Iterator[None]:
    """What a driver says, in one sentence that has no password in it."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # drivers have exceptions of their own
        if not _is_drivers(error):
            raise
        reason = short_reason(Exception(re.split(r"LINE \d+:|[Qq]uery was:|\nquery:", str(error))[0]))
        for secret in _secrets(database.uri):
            reason = reason.replace(secret, "…")
        raise InputError(f"{database.label}: {reason}; correct the query, the address or the rights.") from None


def _is_drivers(error: Exception) -> bool:
    return isinstance(error, OSError | pa.ArrowException) or type(error).__module__.split(".")[0] in (
        *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "duckdb", "_duckdb", "sqlite3"),
    )


def _secrets(uri: str) -> list[str]:
    parts = urlsplit(uri)
    given = [parts.password or "", *(value for name, value in parse_qsl(parts.query) if name in SECRETS)]
    return [one for secret in given for one in (secret, unquote(secret)) if one]


@contextmanager
def _connected(database: Database, for_reading: bool) -> Iterator[Any]:
    """A connection that is closed at the end. What was not committed is not written."""
    if database.kind != "postgresql" and for_reading and not Path(database.uri).is_file():
        raise InputError(f"{database.label}: there is no such file; check the path.")
    with _driver_errors(database):
        connection = _driver(database.kind)(database.uri, for_reading)
    try:
        yield connection
    finally:
        connection.close()


def _driver(kind: str) -> Callable[[str, bool], Any]:
    try:
        if kind == "duckdb":
            import duckdb

            return lambda path, for_reading: duckdb.connect(path, read_only=for_reading)
        if kind == "sqlite":
            from adbc_driver_sqlite import dbapi as sqlite

            return lambda path, _: sqlite.connect(path)
        from adbc_driver_postgresql import dbapi as postgresql

        return lambda uri, _: postgresql.connect(uri)
    except ImportError:
        raise InputError(f"reading from {kind} needs a driver: pip install 'accord[sql]'.") from None


def _standard(column: pa.Array) -> pa.Array:
    """Types that only a database has as text: uuid, and numbers of any length."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if str(column.type) == "extension<arrow.uuid>":
        return pa.array([None if one is None else str(uuid.UUID(bytes=one)) for one in column.storage.to_pylist()])
    return column.storage


def _cursor(database: Database, connection: Any) -> Any:
    if database.kind == "duckdb":
        return connection.cursor()
    options = {"adbc.sqlite.query.batch_rows": BATCH_ROWS} if database.kind == "sqlite" else {}
    return connection.cursor(adbc_stmt_kwargs=options)


def _rows(database: Database, cursor: Any, sql: str) -> pa.RecordBatchReader:
    """The rows of a query, to be read as long as the cursor is open."""
    if database.kind != "duckdb":
        cursor.execute(sql)
        return cursor.fetch_record_batch()
    rows = cursor.sql(sql)
    if rows is None:
        raise InputError(f"{database.label}: the query gives no rows; give a select.")
    read = rows.to_arrow_reader if hasattr(rows, "to_arrow_reader") else rows.fetch_arrow_reader  # before version 2
    return read(BATCH_ROWS)


@dataclass(frozen=True)
class Target:
    """A table to write to: the last part of a URI, as in postgresql://host/shop/lists or sqlite:///shop.db/lists."""

    database: Database
    table: str

    @classmethod
    def parse(cls, text: str) -> Target:
        address, _, query = text.partition("?")
        place, _, table = address.rpartition("/")
        database = database_of(place + (f"?{query}" if query else "")) if is_database(text) else None
        if database is None or not TABLE.fullmatch(table):
            raise InputError(
                Argument("to", without_password(text)),
                ": write it as postgresql://HOST/DATABASE/TABLE, sqlite:///FILE/TABLE or duckdb:///FILE/TABLE.",
            )
        return cls(database, table)

    def write(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], if_exists: str = "fail") -> None:
        """Write all batches, or none of them if that fails."""
        failures: list[Exception] = []

        def watched() -> Iterator[pa.RecordBatch]:  # a driver hides in its own errors what went wrong in here
            try:
                yield from batches
            except Exception as error:
                failures.append(error)
                raise

        try:
            with _connected(self.database, for_reading=False) as connection, _driver_errors(self.database):
                self._write(connection, pa.RecordBatchReader.from_batches(schema, watched()), if_exists)
        except InputError as error:
            if failures:
                raise failures[0] from None
            if if_exists == "fail" and "exist" in str(error):
                exists = f"{self.database.label} has a table '{self.table}' already; give "
                raise InputError(exists, Argument("if_exists", "replace"), " or append.") from None
            raise

    def _write(self, connection: Any, rows: pa.RecordBatchReader, if_exists: str) -> None:
        if self.database.kind == "duckdb":
            self._write_duckdb(connection, rows, if_exists)
            return
        space, _, table = self.table.rpartition(".")
        where = {"db_schema_name": space} if space else {}
        mode = {"fail": "create", "append": "create_append"}.get(if_exists, if_exists)
        with connection.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode=mode, **where)
        connection.commit()

    def _write_duckdb(self, connection: Any, rows: pa.RecordBatchReader, if_exists: str) -> None:
        name = ".".join(f'"{part}"' for part in self.table.split("."))
        connection.begin()
        if if_exists == "replace":
            connection.execute(f"drop table if exists {name}")
        connection.register("accord_rows", rows)
        if if_exists == "append":
            columns = ", ".join(f'"{column}"' for column in rows.schema.names)
            connection.execute(f"create table if not exists {name} as select * from accord_rows limit 0")
            connection.register("accord_rows", rows)
            connection.execute(f"insert into {name} ({columns}) select * from accord_rows")
        else:
            connection.execute(f"create table {name} as select * from accord_rows")
        connection.commit()
