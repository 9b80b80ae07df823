"""Databases (the extra `sql`): rows of a query, streamed as Arrow batches, and tables written in a transaction."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import pyarrow as pa

from accord.data.columns import refuse_repeated
from accord.errors import Argument, InputError

KINDS = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "duckdb": "duckdb"}
SUFFIXES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb"}
SECRETS = ("password", "sslpassword", "passfile")  # options of a connection that no message shows
CURSOR_OPTIONS = {"sqlite": {"adbc.sqlite.query.batch_rows": 2**17}}
LONGEST_REASON = 300
ALREADY_EXISTS = 4  # the status that ADBC's drivers give for SQLSTATE 42P07 and what SQLite has for it
QUERY = Argument("query", "select user_id, item_id from …")
ADDRESS = re.compile(r"(\w+://)(?:([^/@:?]*)(?::([^/@?]*))?@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)
STATUS = re.compile(r"^[A-Z_]+: (\[\w+\] )?")  # a driver's word for the kind of an error, before the database's own
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
    database: Database
    sql: str

    @classmethod
    def of(cls, source: Any, sql: str | None) -> Query:
        database = database_of(source)
        if database is None:
            raise InputError(f"{source} is not a database, so it takes no query; leave the query out.")
        if not sql or not sql.strip():
            raise InputError(f"{database.label} is a database; say what to read with ", QUERY, ".")
        return cls(database, sql)

    @property
    def label(self) -> str:
        return self.database.label

    @property
    def name(self) -> str:
        """What to call the log: the name of the database."""
        uri = self.database.uri
        name = Path(uri).stem if self.database.kind != "postgresql" else _parts(uri)[4]
        return re.sub(r"[^\w-]+", "-", name).strip("-") or self.database.kind

    def schema(self) -> pa.Schema:
        """The columns and their types; nothing is read of the rows."""
        with self._reader(limit=True) as rows:
            return rows.schema

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._reader() as rows, _driver_errors(self.database):
            refuse_repeated(self.label, rows.schema.names)  # SQLite and DuckDB have renamed them in `schema`
            for batch in rows:
                yield pa.record_batch([_standard(batch.column(name)) for name in names], names)

    @contextmanager
    def _reader(self, limit: bool = False) -> Iterator[pa.RecordBatchReader]:
        """The rows as they come, with `limit` none of them."""
        sql = f"select * from ({self.sql.strip().rstrip(';')}) as log limit 0" if limit else self.sql
        with (
            _connected(self.database, for_reading=True) as connection,
            closing(connection.cursor(adbc_stmt_kwargs=CURSOR_OPTIONS.get(self.database.kind))) as cursor,
        ):
            with _driver_errors(self.database):
                cursor.execute(sql)
                rows = cursor.fetch_record_batch()
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
            _, _, _, host, path, options = _parts(source)
            if "@" in host + path or (options and not all("=" in option for option in options.split("&"))):
                raise InputError(
                    f"{scheme}://…: the address cannot be read; write @ / : ? & in a password as %40 %2F %3A %3F %26, "
                    "or give the password in PGPASSWORD."
                )
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
    if not is_database(text):
        text = re.sub(r"(\b[a-zA-Z][\w+.-]*://[^\s/@:]*):[^\s@]*@", r"\1@", text)
        return re.sub(rf"(?<=[?&])({'|'.join(SECRETS)})=[^&\s]*", r"\1=…", text)
    scheme, user, _, host, path, options = _parts(text)
    shown = urlencode([(name, value) for name, value in parse_qsl(options) if name not in SECRETS])
    return scheme + (f"{user}@" if user else "") + host + (f"/{path}" if path else "") + (f"?{shown}" if shown else "")


def _parts(uri: str) -> tuple[str, str, str, str, str, str]:
    """The scheme, user, password, host, path and options of an address, as libpq tells them apart."""
    match = ADDRESS.fullmatch(uri)
    assert match is not None
    scheme, user, password, host, path, options = (part or "" for part in match.groups())
    return scheme, user, password, host, path, options


def short_reason(error: Exception) -> str:
    """What a library says, in one line without passwords."""
    return " ".join(without_password(str(error)).split())[:LONGEST_REASON].rstrip(".")


@contextmanager
def _driver_errors(
    database: Database, fix: str = "correct the query, the address or the rights", exists: InputError | None = None
) -> Iterator[None]:
    """What a driver says, in one sentence that has no password in it; `exists` where it says that a table exists."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        is_drivers = type(error).__module__.startswith("adbc_driver_manager")  # which need not be installed
        if not is_drivers and not isinstance(error, OSError | pa.ArrowException):
            raise
        if exists is not None and getattr(error, "status_code", None) == ALREADY_EXISTS:
            raise exists from None
        reason = re.split(r"LINE \d+:|[Qq]uery was:|\nquery:", STATUS.sub("", str(error)))[0]
        for secret in _secrets(database):
            reason = reason.replace(secret, "…")
        raise InputError(f"{database.label}: {short_reason(Exception(reason))}; {fix}.") from None


def _secrets(database: Database) -> list[str]:
    """What no message may show, as it was given and decoded."""
    if database.kind != "postgresql":
        return []
    _, _, password, _, _, options = _parts(database.uri)
    given = [one.partition("=") for one in options.split("&")]
    secrets = [password, *(value for name, _, value in given if name in SECRETS)]
    return [one for secret in secrets for one in (secret, unquote(secret)) if one]


@contextmanager
def _connected(database: Database, for_reading: bool) -> Iterator[Any]:
    """A connection that is closed at the end. What was not committed is not written."""
    if database.kind != "postgresql" and for_reading and not Path(database.uri).is_file():
        raise InputError(f"{database.label}: there is no such file; check the path.")
    if database.kind != "postgresql" and not (folder := Path(database.uri).parent).is_dir():
        raise InputError(f"{database.label}: there is no folder {folder}; make it, or correct the path.")
    with _driver_errors(database, "correct the address or the rights"):
        connection = _connection(database, for_reading)
    try:
        yield connection
    finally:
        connection.close()


def _connection(database: Database, for_reading: bool) -> Any:
    try:
        if database.kind != "duckdb":
            return import_module(f"adbc_driver_{database.kind}.dbapi").connect(database.uri)
        import adbc_driver_duckdb  # comes with DuckDB
        from adbc_driver_manager import dbapi

        options = {"path": database.uri, "access_mode": "READ_ONLY" if for_reading else "AUTOMATIC"}
        driver = adbc_driver_duckdb.driver_path()
        return dbapi.connect(driver=driver, entrypoint="duckdb_adbc_init", db_kwargs=options)
    except ImportError:
        raise InputError(f"reading from {database.kind} needs a driver: pip install 'accord[sql]'.") from None


def _standard(column: pa.Array) -> pa.Array:
    """Types that only a database has as text: uuid, and numbers of any length."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if str(column.type) == "extension<arrow.uuid>":
        return pa.array([None if one is None else str(uuid.UUID(bytes=one)) for one in column.storage.to_pylist()])
    return column.storage


@dataclass(frozen=True)
class Target:
    database: Database
    table: str

    @classmethod
    def of(cls, to: str, table: str | None) -> Target:
        """The table of a database that the address names: a default database of the server is none of them."""
        database = database_of(to)
        if database is None:
            raise InputError(
                Argument("to", without_password(to)),
                ": write it as postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE.",
            )
        label, _, options = database.label.partition("?")
        place, _, last = label.rpartition("/")
        is_server = database.kind == "postgresql"
        path, given = _parts(database.uri)[4:] if is_server else ("", "")
        if "/" in path or (not is_server and Path(database.uri).parent.is_file()):
            named = place + (f"?{options}" if options else "")
            problem = f"{label} has a table after its database; give "
            raise InputError(problem, Argument("to", named), " ", Argument("table", last), ".")
        if is_server and not path and "dbname" not in dict(parse_qsl(given)):
            raise InputError(f"{database.label} names no database; write it as postgresql://HOST/DATABASE.")
        if table is None or not TABLE.fullmatch(table):
            problem = "no table is named" if table is None else f"'{table}' cannot be the name of a table"
            raise InputError(f"{database.label}: {problem}; give ", Argument("table", "recommendations"), ".")
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

        exists = InputError(
            f"{self.database.label} has a table '{self.table}' already; give ",
            Argument("if_exists", "replace"),
            " or append.",
        )
        try:
            with (
                _connected(self.database, for_reading=False) as connection,
                _driver_errors(self.database, "correct the table or the rights", exists),
            ):
                space, _, table = self.table.rpartition(".")
                where = {"db_schema_name": space} if space else {}
                rows = pa.RecordBatchReader.from_batches(schema, watched())
                mode = {"fail": "create", "append": "create_append"}.get(if_exists, if_exists)
                with connection.cursor() as cursor:
                    cursor.adbc_ingest(table, rows, mode=mode, **where)
                if failures:  # DuckDB takes what came before them for all
                    raise failures[0]
                connection.commit()
        except InputError:
            if failures:
                raise failures[0] from None
            raise
