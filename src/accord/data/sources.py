"""A file, folder, frame, matrix or query that has named its columns, to be read in batches once some are chosen."""

from __future__ import annotations

import csv
import glob
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from accord.data import text, untrusted
from accord.data.columns import refuse_repeated
from accord.data.databases import Query, database_of
from accord.data.interactions import Interactions
from accord.data.objects import FetchedFiles, is_object
from accord.data.parquet_files import ParquetFiles
from accord.data.store import store as stores
from accord.data.text import JsonLines, TextTable
from accord.errors import InputError

FILE_KINDS = "CSV, TSV, other delimited text, JSON Lines, Parquet, RecBole .inter, MovieLens"
WELL_KNOWN = ("u.data", "ratings.dat", "ratings.csv")  # what a MovieLens folder is read for
LONGEST_REASON = 300  # characters of an error message that is not ours
BATCH_ROWS = 2**20  # of a table, at once
TEXT_SUFFIXES = tuple(
    f"{kind}{compression}"
    for kind in (".csv", ".tsv", ".inter", ".jsonl", ".ndjson")
    for compression in ("", ".gz", ".bz2", ".zst", ".zip")
)
PARQUET = (".parquet", ".pq")

Batches = Callable[[list[str]], Iterator[pa.RecordBatch]]


@dataclass
class Opened:
    """A source that has named its columns, to be read once some are chosen."""

    names: list[str]
    label: str  # what messages call it
    reader: Batches
    from_text: bool = False
    headed: bool = True  # whether the source names its columns, so that roles are guessed from the names
    timestamps: tuple[str, ...] = ()  # columns of this type, where the source has types
    partitions: tuple[str, ...] = ()  # columns that are folders (day=1/…), which are read only where they are named
    num_rows: int | None = None  # None where only reading tells
    notes: tuple[str, ...] = ()
    late_notes: list[str] = field(default_factory=list)  # what only reading shows
    texts: tuple[TextTable, ...] = ()
    has_marks: bool = False  # whether ids may have a spreadsheet's text marks
    fetched: FetchedFiles | None = None  # which must live as long as the source is read

    @classmethod
    def of_table(cls, table: pa.Table, label: str, headed: bool = True) -> Opened:
        def batches(names: list[str]) -> Iterator[pa.RecordBatch]:
            yield from table.select(names).to_batches(max_chunksize=BATCH_ROWS)

        timestamps = _timestamps(table.schema)
        return cls(table.column_names, label, batches, False, headed, timestamps, num_rows=table.num_rows)

    @classmethod
    def of_texts(cls, texts: Sequence[TextTable], label: str, headed: bool, notes: tuple[str, ...] = ()) -> Opened:
        def batches(names: list[str]) -> Iterator[pa.RecordBatch]:
            return (batch for one in texts for batch in one.batches(names))

        has_marks = not any(isinstance(one, JsonLines) for one in texts)  # spreadsheets write no JSON
        names = list(texts[0].names)
        return cls(names, label, batches, True, headed, notes=notes, texts=tuple(texts), has_marks=has_marks)

    def batches(self, names: list[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns in batches; `ids` are the columns of these."""
        self.late_notes.clear()
        try:
            batches = self.reader(names)
            yield from untrusted.as_written(self.label, batches, ids, self.late_notes) if self.has_marks else batches
        except (pa.ArrowException, OSError, RuntimeError) as error:  # Arrow raises RuntimeError too
            raise unreadable(self.label, error) from None

    def read(self, names: list[str]) -> pa.Table:
        batches = list(self.batches(names))
        return pa.Table.from_batches(batches, batches[0].schema if batches else text.text_schema(names))

    def in_memory(self) -> tuple[pa.Table, Opened]:
        """Every column, as it was written, and a source that reads from this table: the file is opened once."""
        refuse_repeated(self.label, self.names)
        table = self.read(self.names)
        return table, replace(self, reader=Opened.of_table(table, self.label).reader, num_rows=table.num_rows)


def open_source(source: Any) -> Opened:
    """Anything that can be read as a table, opened so far that it names its columns."""
    if isinstance(source, Opened):
        return source
    if is_object(source):
        fetched = FetchedFiles(source)
        opened = _open_paths(fetched.paths, fetched.label)
        opened.fetched = fetched
        return opened
    if database_of(source) is not None:
        source = Query.of(source, None)  # which says what is missing
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        store = open_store(path)
        return open_path(path, str(source)) if store is None else Opened.of_table(store.table(), str(source), False)
    if is_files(source):
        label = f"{source[0]} and {len(source) - 1} more" if len(source) > 1 else str(source[0])
        return _open_paths([Path(file).expanduser() for file in source], label)
    label = f"the {type(source).__name__}"
    if isinstance(source, Query):
        schema = source.schema()
        named, timestamps = list(schema.names), _timestamps(schema)
        return Opened(named, source.label, source.batches, timestamps=timestamps)
    if isinstance(source, Interactions):
        return Opened.of_table(source.table, label, headed=False)
    if hasattr(source, "tocoo"):
        return Opened.of_table(_matrix(source), label, headed=False)
    return Opened.of_table(frame(source), label)


def is_files(source: Any) -> bool:
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(file, str | Path) for file in source)


def open_store(path: Path) -> stores.Store | None:
    return stores.Store.open(path) if stores.is_store(path) or stores.is_unfinished(path) else None


def _matrix(source: Any) -> pa.Table:
    matrix = source.tocoo()
    if len(matrix.shape) != 2:
        raise InputError("the sparse matrix must have two dimensions: users and items.")
    stored = matrix.data != 0  # a stored zero is not an interaction
    parts = (matrix.row, matrix.col, matrix.data)
    return pa.table([pa.array(part[stored]) for part in parts], names=["user", "item", "value"])


def frame(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    label = f"the {type(source).__name__}"
    if not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            f"cannot read a {type(source).__name__}; give a path, a catalog name, a pandas, polars or Arrow table,"
            " or a scipy sparse matrix."
        )
    refuse_repeated(label, [str(name) for name in getattr(source, "columns", ())])
    try:
        table = pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # a pandas column of mixed types: as text it can be read
        try:
            mixed = source.select_dtypes(include="object").columns
            table = pa.table(source.astype(dict.fromkeys(mixed, "string")))
        except Exception as error:
            raise unreadable(label, error) from None
    # row numbers of a pandas frame that was filtered are no column
    return table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])


def unreadable(label: str, error: Exception) -> InputError:
    reason = str(error).strip().split("\n")[0].rstrip(".")[:LONGEST_REASON] or type(error).__name__
    if "UTF8" in reason or "utf-8" in reason:
        return InputError(f"{label} is not UTF-8 text; save it as UTF-8 ({reason}).")
    if "new-line character" in reason:
        return InputError(f"{label} has a stray carriage return; end lines with line feeds.")
    if "CSV parse error" in reason:
        advice = "give every row the same number of cells, and put a cell that holds a separator or a quote into quotes"
    else:
        advice = f"if it is damaged or cut short, make or copy it again; Accord reads {FILE_KINDS}"
    return InputError(f"{label} cannot be read ({reason}); {advice}.")


def open_path(path: Path, label: str) -> Opened:
    """A file, or a folder: of Parquet files, or of one text file."""
    _require_utf8_name(path, label)
    file = untrusted.in_archive(path)[0]
    if label and not file.exists() and glob.has_magic(str(path)):
        return _open_paths([Path(file) for file in sorted(glob.glob(str(path), recursive=True))], label)  # noqa: PTH207
    if not label or not file.exists():
        raise InputError(f"no file or folder '{label}'; check the path, or see `accord data list` for named datasets.")
    if path.is_dir():
        # its files and those of partitions (day=1/…), but nothing else that lies deeper
        for suffix in PARQUET:
            if files := sorted([*path.glob(f"*{suffix}"), *path.glob(f"*=*/**/*{suffix}")]):
                return _open_parquet(files, label, path)
        file = _only_table(path)
        opened = open_path(file, str(file))
        opened.notes = (f"{label}: read {file.name}.", *opened.notes)
        return opened
    if not file.is_file():  # a log is opened twice, to detect its layout and to read it
        raise InputError(f"{label} is a pipe or device, not a file, and cannot be read twice; write it to a file.")
    if file.suffix.lower() in PARQUET:
        return _open_parquet([path], label)
    try:
        table, headed, note = text.detect(path, label)
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError, csv.Error, zipfile.BadZipFile) as error:
        raise unreadable(label, error) from None
    return Opened.of_texts([table], label, headed, (note,) if note else ())


def _require_utf8_name(path: Path, label: str) -> None:
    """Arrow, and the JSON that the name is written to, take no other."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{label} has a name that is not UTF-8; rename it.") from None


def _open_paths(paths: Sequence[Path], label: str) -> Opened:
    if not paths:
        raise InputError(f"no file matches '{label}'; check the pattern.")
    if len(paths) == 1:
        return open_path(paths[0], label)
    if all(path.suffix.lower() in PARQUET and path.is_file() for path in paths):
        for path in paths:
            _require_utf8_name(path, str(path))
        return _open_parquet(paths, label)
    opened = [open_path(path, str(path)) for path in paths]
    if not all(one.texts for one in opened):
        raise InputError(f"{label}: files of different kinds cannot be read as one; give files of one kind.")
    return _joined(opened, label)


def _open_parquet(files: Sequence[Path], label: str, folder: Path | None = None) -> Opened:
    try:
        parquet = ParquetFiles.open(files, folder)
    except (pa.ArrowException, OSError, RuntimeError) as error:
        raise unreadable(label, error) from None
    return Opened(
        parquet.names, label, parquet.batches, timestamps=_timestamps(pa.schema(parquet.types)),
        partitions=tuple(parquet.partitions), num_rows=parquet.num_rows,
    )  # fmt: skip


def _timestamps(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(field.name for field in schema if pa.types.is_timestamp(field.type))


def _only_table(folder: Path) -> Path:
    for name in WELL_KNOWN:
        if (folder / name).is_file():
            return folder / name
    files = sorted(file for file in folder.iterdir() if file.name.endswith(TEXT_SUFFIXES))
    if len(files) == 1:
        return files[0]
    if files:
        listing = ", ".join(file.name for file in files[:5])
        pattern = f"{folder}/*{files[0].suffix}"
        raise InputError(
            f"folder {folder} holds several tables ({listing}); give one of them, or all with '{pattern}' if they are"
            " parts of one."
        )
    raise InputError(
        f"folder {folder} holds nothing that can be read; put a log there: read are {FILE_KINDS} and split folders."
    )


def _joined(files: Sequence[Opened], label: str) -> Opened:
    for file in files[1:]:
        if file.names != files[0].names:
            raise InputError(
                f"{file.label} has other columns than {files[0].label}; files that are read as one must have the same."
            )
    return Opened.of_texts([one for file in files for one in file.texts], label, files[0].headed, files[0].notes)
