"""A file, folder, frame or matrix whose columns are known, read in batches once they are chosen."""

from __future__ import annotations

import csv
import glob
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from accord.data import sheets, text, untrusted
from accord.data.columns import only_once
from accord.data.databases import Query
from accord.data.text import TextTable
from accord.errors import InputError

FILE_KINDS = "CSV, TSV, other delimited text, JSON Lines, Parquet, ORC, Excel, RecBole .inter, MovieLens"
WELL_KNOWN = ("u.data", "ratings.dat", "ratings.csv")  # what a MovieLens folder is read for
LONGEST_REASON = 300  # characters of an error message that is not ours
BATCH_ROWS = 2**20  # read at once
COMPRESSED = ("", ".gz", ".bz2", ".zst", ".zip")
TEXT_SUFFIXES = tuple(
    f"{kind}{packed}" for kind in (".csv", ".tsv", ".inter", ".jsonl", ".ndjson") for packed in COMPRESSED
)
TABLE_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".orc": "orc"}


@dataclass
class Opened:
    """A source whose column names are known: a table, or a dataset, texts or a query, read once columns are chosen."""

    names: list[str]
    label: str
    table: pa.Table | None = None
    dataset: Any = None
    at_once: int = BATCH_ROWS  # rows of the dataset
    texts: tuple[TextTable, ...] = ()
    query: Query | None = None
    headed: bool = True  # whether the names are the source's own, so that roles are guessed from them
    partitions: tuple[str, ...] = ()  # columns that are folders (day=1/…), which are read only where they are named
    kept: Any = None  # what must live as long as the source is read: files that were fetched
    notes: tuple[str, ...] = ()
    found: list[str] = field(default_factory=list)  # notes that are known only after reading

    @property
    def from_text(self) -> bool:
        return bool(self.texts)

    @property
    def files(self) -> list[Path]:
        """The files to read, in order."""
        if self.query is not None:
            return []
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
        if self.query is not None:
            yield from self.query.batches(names)
            return
        try:
            texts = (batch for text in self.texts if not text.exact for batch in text.batches(names, ids))
            yield from untrusted.as_written(self.label, texts, ids, self.found)
            for exact in (text for text in self.texts if text.exact):
                yield from exact.batches(names, ids)
            if self.dataset is not None:
                yield from untrusted.sound(self.dataset, partial(self._table_batches, names), ids)
        except (pa.ArrowException, OSError, RuntimeError) as error:  # Arrow raises RuntimeError too
            raise unreadable(self.label, error) from None

    def _table_batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if self.at_once < BATCH_ROWS and self.dataset.format.default_extname == "parquet":
            return untrusted.few_at_once(self.dataset, names)
        rows = min(self.at_once, BATCH_ROWS)
        found: Iterator[pa.RecordBatch] = self.dataset.to_batches(columns=names, batch_size=rows, batch_readahead=2)
        return found

    def read(self, names: list[str]) -> pa.Table:
        """All of the named columns at once."""
        if self.table is not None:
            return self.table.select(names)
        batches = list(self.batches(names))
        schema = batches[0].schema if batches else text.schema(names)
        return pa.Table.from_batches(batches, schema)


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
    only_once(f"the {type(source).__name__}", [str(name) for name in getattr(source, "columns", ())])
    try:
        return pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
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
    if "new-line character" in reason:
        return InputError(f"{label} has a carriage return that ends no line; end lines by a line feed.")
    if "CSV parse error" in reason:
        advice = "give every row the same number of cells, and put a cell that holds a separator or a quote into quotes"
    else:
        advice = f"if it is damaged or cut short, make or copy it again; read are {FILE_KINDS}"
    return InputError(f"{label} cannot be read ({reason}); {advice}.")


def open_path(path: Path, label: str, several: bool = False) -> Opened:
    """A file, or a folder: of Parquet files, of one text file, or with `several` of text files of the same columns."""
    untrusted.require_utf8_name(path, label)
    if label and not path.exists() and glob.has_magic(str(path)):
        return open_paths([Path(file) for file in sorted(glob.glob(str(path), recursive=True))], label)  # noqa: PTH207
    if not label or not path.exists():
        raise InputError(f"no file or folder '{label}'; check the path, or see `accord data list` for named datasets.")
    untrusted.require_file(path, label)
    if path.is_dir():
        # its own files and those of partitions (day=1/…), but nothing else that lies deeper
        for suffix, kind in TABLE_SUFFIXES.items():
            if files := sorted([*path.glob(f"*{suffix}"), *path.glob(f"*=*/**/*{suffix}")]):
                return _open_tables(files, kind, label, path)
        if several and len(texts := _texts(path)) > 1:
            return _joined([open_path(file, str(file)) for file in texts], label)
        file = _only_table(path)
        opened = open_path(file, str(file))
        opened.notes = (f"{label}: read {file.name}.", *opened.notes)
        return opened
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        return _open_tables([path], TABLE_SUFFIXES[suffix], label)
    if suffix in sheets.OTHER_SUFFIXES:
        raise InputError(f"{label} is a sheet of a kind that is not read; save it as .xlsx or CSV.")
    try:
        if suffix in sheets.SUFFIXES:
            sheet, headed, notes = sheets.open_sheet(path, label)
            return Opened(list(sheet.names), label, texts=(sheet,), headed=headed, notes=tuple(notes))
        found, headed, note = text.open_text(path, label)
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError, csv.Error, zipfile.BadZipFile) as error:
        raise unreadable(label, error) from None
    return Opened(list(found.names), label, texts=(found,), headed=headed, notes=(note,) if note else ())


def open_paths(paths: Sequence[Path], label: str) -> Opened:
    """Several files with the same columns, as one table."""
    if not paths:
        raise InputError(f"no file matches '{label}'; check the pattern.")
    kinds = {TABLE_SUFFIXES.get(path.suffix.lower(), "") if path.is_file() else "" for path in paths}
    if len(paths) > 1 and len(kinds) == 1 and "" not in kinds:
        for path in paths:
            untrusted.require_utf8_name(path, str(path))
        return _open_tables(list(paths), kinds.pop(), label)
    if len(paths) == 1:
        return open_path(paths[0], label)
    opened = [open_path(path, str(path)) for path in paths]
    if not all(one.texts for one in opened):
        raise InputError(f"{label}: files of different kinds cannot be read as one; give files of one kind.")
    return _joined(opened, label)


def _open_tables(files: list[Path], kind: str, label: str, folder: Path | None = None) -> Opened:
    try:
        dataset, at_once = untrusted.tables(files, kind, folder)
        own = {name for fragment in dataset.get_fragments() for name in fragment.physical_schema.names}
    except (pa.ArrowException, OSError, RuntimeError) as error:
        if "duplicate field names" in str(error):
            for file in files:
                only_once(str(file), untrusted.names_of(file, kind))
        raise unreadable(label, error) from None
    partitions = tuple(name for name in dataset.schema.names if name not in own)
    return Opened(list(dataset.schema.names), label, dataset=dataset, at_once=at_once, partitions=partitions)


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
        pattern = f"{folder}/*{files[0].suffix}"
        raise InputError(
            f"folder {folder} holds several tables ({listing}); give one of them, or all with '{pattern}' if they are"
            " parts of one."
        )
    raise InputError(
        f"folder {folder} holds nothing that can be read; put a log there: read are {FILE_KINDS} and split folders."
    )


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith((*TEXT_SUFFIXES, *sheets.SUFFIXES)))


def _joined(files: list[Opened], label: str) -> Opened:
    """Text files one after another, in the order of their names."""
    for file in files[1:]:
        if file.names != files[0].names:
            raise InputError(
                f"{file.label} has other columns than {files[0].label}; files that are read as one must have the same."
            )
    texts = tuple(text for file in files for text in file.texts)
    return Opened(files[0].names, label, texts=texts, headed=files[0].headed, notes=files[0].notes)
