"""A file, folder, frame or matrix whose columns are known, read in batches once they are chosen."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from accord.data import columns as col
from accord.data import untrusted
from accord.errors import InputError

DELIMITERS = ("::", "\t", ",", ";", "|")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
RECBOLE_FIELD = re.compile(r"(.+):(token|token_seq|float|float_seq)")
FILE_KINDS = "CSV, TSV, Parquet, RecBole .inter, MovieLens u.data or ratings.dat"
WELL_KNOWN = ("u.data", "ratings.dat", "ratings.csv")  # what a MovieLens folder is read for
LONGEST_REASON = 300  # characters of an error message that is not ours
BATCH_ROWS, TEXT_BLOCK = 2**20, 2**24  # read at once: rows, bytes of text
TEXT_SUFFIXES = (".csv", ".tsv", ".inter", ".csv.gz", ".tsv.gz")


@dataclass
class Opened:
    """A source whose column names are known: a table, or a dataset or texts to be read once columns are chosen."""

    names: list[str]
    label: str
    table: pa.Table | None = None
    dataset: Any = None
    texts: tuple[Layout, ...] = ()
    headed: bool = True  # whether the names are the source's own, so that roles are guessed from them
    notes: tuple[str, ...] = ()
    found: list[str] = field(default_factory=list)  # notes that are known only after reading

    @property
    def from_text(self) -> bool:
        return bool(self.texts)

    @property
    def files(self) -> list[Path]:
        """The files to read, in order."""
        return [text.path for text in self.texts] or [Path(file) for file in self.dataset.files]

    def num_rows(self) -> int | None:
        """The number of rows, where that is known before they are read."""
        try:
            return None if self.dataset is None else int(self.dataset.count_rows())
        except (pa.ArrowException, OSError, RuntimeError) as error:  # Arrow raises RuntimeError too
            raise unreadable(self.label, error) from None

    def batches(self, names: list[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns in batches; `ids` of a text file as dictionaries."""
        if self.table is not None:
            yield from self.table.select(names).to_batches(max_chunksize=BATCH_ROWS)
            return
        try:
            texts = (batch for text in self.texts for batch in text.batches(names, ids))
            yield from untrusted.as_written(self.label, texts, ids, self.found)
            if self.dataset is not None:
                options = {"columns": names, "batch_size": BATCH_ROWS, "batch_readahead": 2}
                yield from untrusted.sound(self.dataset, partial(self.dataset.to_batches, **options))
        except (pa.ArrowException, OSError, RuntimeError) as error:  # Arrow raises RuntimeError too
            raise unreadable(self.label, error) from None

    def read(self, names: list[str]) -> pa.Table:
        """All of the named columns at once."""
        if self.table is not None:
            return self.table.select(names)
        schema = self.texts[0].schema(names) if self.texts else self.dataset.schema
        return pa.Table.from_batches(self.batches(names), schema)


def matrix(source: Any) -> pa.Table:
    matrix = source.tocoo()
    if len(matrix.shape) != 2:
        raise InputError("the sparse matrix must have two dimensions: users and items.")
    stored = matrix.data != 0  # a stored zero is not an interaction
    parts = (matrix.row, matrix.col, matrix.data)
    return pa.table([pa.array(part[stored]) for part in parts], names=["user", "item", "value"])


def frame(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            f"cannot read a {type(source).__name__}; give a path, a catalog name, a pandas, polars or Arrow table,"
            " or a scipy sparse matrix."
        )
    try:
        return pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # a pandas column of mixed types: as text it can be read
        try:
            mixed = source.select_dtypes(include="object").columns
            return pa.table(source.astype(dict.fromkeys(mixed, "string")))
        except Exception as error:
            raise unreadable(f"the {type(source).__name__}", error) from None


def unreadable(label: str, error: Exception) -> InputError:
    reason = str(error).strip().split("\n")[0].rstrip(".")[:LONGEST_REASON] or type(error).__name__
    if "UTF8" in reason or "utf-8" in reason:
        return InputError(f"{label} is not UTF-8 text; save it as UTF-8 ({reason}).")
    return InputError(f"{label} cannot be read ({reason}); supported are {FILE_KINDS}.")


def open_path(path: Path, label: str, several: bool = False) -> Opened:
    """A file, or a folder: of Parquet files, of one text file, or with `several` of text files of the same columns."""
    if not label or not path.exists():
        raise InputError(f"no file or folder '{label}'; check the path, or see `accord data list` for named datasets.")
    untrusted.require_file(path, label)
    files = [path]
    if path.is_dir():
        # its own files and those of partitions (day=1/…), but nothing else that lies deeper
        files = sorted([*path.glob("*.parquet"), *path.glob("*=*/**/*.parquet")])
        if not files:
            if several and len(texts := _texts(path)) > 1:
                return _joined([open_path(file, str(file)) for file in texts], label)
            file = _only_table(path)
            opened = open_path(file, str(file))
            opened.notes = (f"{label}: read {file.name}.", *opened.notes)
            return opened
    try:
        if all(file.suffix in (".parquet", ".pq") for file in files):
            dataset = untrusted.parquet(files)
            return Opened(dataset.schema.names, label, dataset=dataset)
        return _open_text(path, label)
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(label, error) from None


def _only_table(folder: Path) -> Path:
    """The only table in a folder."""
    for known in WELL_KNOWN:
        if (folder / known).is_file():
            return folder / known
    files = _texts(folder)
    if len(files) == 1:
        return files[0]
    if files:
        listing = ", ".join(file.name for file in files[:5])
        raise InputError(f"folder {folder} holds several tables ({listing}); give one of them.")
    raise InputError(f"folder {folder} holds nothing that can be read; supported are {FILE_KINDS} and split folders.")


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith(TEXT_SUFFIXES))


def _joined(files: list[Opened], label: str) -> Opened:
    """Text files one after another, in the order of their names."""
    for file in files[1:]:
        if file.names != files[0].names:
            raise InputError(
                f"{file.label} has other columns than {files[0].label}; all files of a folder must have the same."
            )
    texts = tuple(text for file in files for text in file.texts)
    return Opened(files[0].names, label, texts=texts, headed=files[0].headed)


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    skip: int  # header lines
    quoted: bool

    def schema(self, names: Iterable[str], ids: Collection[str] = ()) -> pa.Schema:
        """All columns as text, `ids` as dictionaries."""
        return pa.schema(
            [(name, pa.dictionary(pa.int32(), pa.string()) if name in ids else pa.string()) for name in names]
        )

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns, as text."""
        between = len(self.delimiter) - 1  # "::" is read as ":" with an empty column between
        every = [part for name in self.names for part in (name, *[""] * between)][: None if not between else -between]
        every = [name or f"\0{index}" for index, name in enumerate(every)]
        # one thread, so that an error can name its row
        read = pyarrow.csv.ReadOptions(
            column_names=every, skip_rows=self.skip, use_threads=False, block_size=TEXT_BLOCK
        )
        quote = '"' if self.quoted else False
        parse = pyarrow.csv.ParseOptions(delimiter=self.delimiter[0], quote_char=quote, newlines_in_values=self.quoted)
        convert = pyarrow.csv.ConvertOptions(
            include_columns=names, column_types=self.schema(names, ids), strings_can_be_null=False
        )
        with untrusted.opened(self.path) as stream:
            try:
                yield from pyarrow.csv.open_csv(stream, read, parse, convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):  # a header and nothing below it
                    raise


def _open_text(path: Path, label: str) -> Opened:
    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16)
    if b"\0" in start:
        raise InputError(f"{label} is not UTF-8 text; save it as UTF-8, or as Parquet in a file named *.parquet.")
    head = io.TextIOWrapper(io.BytesIO(start), encoding="utf-8-sig", errors="replace")
    first = next((line.rstrip("\r\n") for line in head if line.strip()), None)
    if first is None:
        raise InputError(f"{label} is empty: it has no rows of interactions.")
    quoted = path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt"))
    rows = {mark: _fields(first, mark, quoted) for mark in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda mark: len(rows[mark]))
    row = rows[delimiter]
    if len(row) < 2:
        raise InputError(f"{label} has one column only; separate user and item by a comma, semicolon or tab.")
    if any(col.is_usual("user", cell) for cell in row) or not any(NUMBER.fullmatch(cell.strip()) for cell in row):
        recbole = [RECBOLE_FIELD.fullmatch(cell) for cell in row]
        names = [match[1] for match in recbole if match] if all(recbole) else [cell.strip() for cell in row]
        return Opened(names, label, texts=(Layout(path, delimiter, tuple(names), 1, quoted),))
    if len(row) > len(col.GUESSED):
        raise InputError(f"{label} has {len(row)} columns and no header line; add one that names them.")
    names = list(col.GUESSED[: len(row)])
    note = f"{label}: no header line; its columns were read as {', '.join(names)}."
    return Opened(names, label, texts=(Layout(path, delimiter, tuple(names), 0, quoted),), headed=False, notes=(note,))


def _fields(line: str, delimiter: str, quoted: bool) -> list[str]:
    if len(delimiter) > 1 or not quoted:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])
