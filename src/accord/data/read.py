"""Files, folders and frames -> Interactions; the paper's split folders, and all that `accord.load` takes -> Dataset."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from accord.data import columns as col
from accord.data import distrust
from accord.data import split as splitting
from accord.data.columns import Columns
from accord.data.encode import encoded
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.errors import InputError

if TYPE_CHECKING:
    from accord.data.store.opened import Store

DELIMITERS = ("::", "\t", ",", ";", "|")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
RECBOLE_FIELD = re.compile(r"(.+):(token|token_seq|float|float_seq)")
FILE_KINDS = "CSV, TSV, Parquet, RecBole .inter, MovieLens u.data or ratings.dat"
WELL_KNOWN = ("u.data", "ratings.dat", "ratings.csv")  # what a MovieLens folder is read for
PARTS = ("train.rating", "valid.rating", "valid.noisy", "test.negative", "test.noisy")
MOST_OF_A_REASON = 300  # characters of an error that is not ours
BATCH_ROWS, TEXT_BLOCK = 2**20, 2**24  # read at once: rows, bytes of text
TEXT_SUFFIXES = (".csv", ".tsv", ".inter", ".csv.gz", ".tsv.gz")


def load(
    source: Any,
    *,
    columns: Columns | None = None,
    split: str = "auto",
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    clean: str | None = None,
    seed: int = 0,
    name: str | None = None,
    items: Any = None,
) -> Dataset:
    """A Dataset from a catalog name, a file or folder, a frame, a sparse matrix, or a Dataset as it is.

    `clean` is the rule that tells real preferences in the test, on the value or the time: `"value>=5"`.
    `items` is a file or frame of item ids and titles, with any other columns.
    """
    from accord.data import catalog, titles  # which themselves read with this module

    if items is not None:
        dataset = load(source, columns=columns, split=split, ratios=ratios, clean=clean, seed=seed, name=name)
        return titles.with_items(dataset, items)
    rule = splitting.CleanRule.parse(clean) if clean is not None else None
    fixed = columns is None and split == "auto" and rule is None  # nothing asked that a ready split cannot give
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if not path.exists() and isinstance(source, str) and catalog.is_name(source):
            return catalog.load(source, columns=columns, split=split, ratios=ratios, clean=clean, seed=seed)
        if is_split_folder(path):
            if not fixed:
                raise ready_split(str(path))
            return read_split_folder(path, name)
        if (store := _store(path)) is not None:
            if columns is not None:
                raise InputError(f"{path} is prepared already, so columns cannot be chosen; leave them out.")
            return store.dataset(split, ratios, rule, seed, name)
    elif isinstance(source, Dataset):
        if not fixed:
            raise ready_split(f"the dataset '{source.name}'")
        return source
    interactions, notes = read_table(source, columns, rule.names if rule else (), ordered=True)
    label = name or name_of(source)
    return splitting.split(interactions, split, ratios, rule, seed, label, notes)


def _store(path: Path) -> Store | None:
    """The store that a folder is; None if it is none."""
    from accord.data.store import opened as stores

    return stores.Store.open(path) if stores.is_store(path) or stores.is_unfinished(path) else None


def whole_table(source: Any) -> tuple[pa.Table, bool]:
    """Every column of a file or frame, and whether it is text of a file."""
    opened = _opened(source)
    return opened.read(opened.names), opened.from_text


def ready_split(what: str) -> InputError:
    return InputError(f"{what} is already split, so columns, split and clean rule cannot be chosen; leave them out.")


def read_table(
    source: Any,
    columns: Columns | None = None,
    rule_names: Sequence[str] = (),
    merge: bool = True,
    ordered: bool = False,
) -> tuple[Interactions, list[str]]:
    """Interactions of a file, parquet folder, frame or sparse matrix, one row a pair, and what had to be decided.

    `rule_names` are the columns a clean rule speaks of: one that is not numeric is then an error, not left out.
    Without `merge` the rows stay as they are, repeated pairs too, and one user or item is enough. Merged rows stay in
    the order of the source, or with `ordered` go by user and item.
    """
    given = columns or Columns()
    opened = _opened(source)
    label = opened.label
    chosen = col.choose(label, opened.names, given, rule_names)
    notes = list(opened.notes)
    if opened.headed:
        notes.append(f"{label}: {col.describe(chosen)}")
    asked = {
        role for role in ("value", "time") if getattr(given, role) or {role, getattr(chosen, role)} & {*rule_names}
    }
    names = [name for role in col.ROLES if (name := getattr(chosen, role))]
    batches = opened.batches(names, names[:2])
    rows, said = encoded(label, batches, chosen, opened.from_text, {"value", "time"} - asked, several=merge)
    notes += said
    merged = rows.merged(ordered) if merge else rows
    return merged, notes + merged_note(label, len(rows) - len(merged), rows.has_time)


def merged_note(label: str, repeated: int, by_time: bool) -> list[str]:
    kept = "the latest" if by_time else "the last row"
    said = f"{label}: {repeated} rows repeat a (user, item) pair and were merged, keeping {kept} of each."
    return [said] if repeated else []


def _label(source: Any) -> str:
    """What to call a source in a sentence."""
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def name_of(source: Any) -> str:
    """What to call a dataset read from a source."""
    from accord.data import catalog

    return catalog.own_split_name(_stem(source))


def _stem(source: Any) -> str:
    if not isinstance(source, str | Path):
        return "data"
    path = Path(source).expanduser().resolve()
    path = path.parent if path.name in WELL_KNOWN else path  # u.data says less than its folder
    return path.name if path.is_dir() else path.name.split(".")[0]


def _opened(source: Any) -> Opened:
    label = _label(source)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        store = _store(path)
        return (
            open_path(path, label) if store is None else Opened(store.names, label, table=store.table(), headed=False)
        )
    if isinstance(source, Interactions):
        return Opened(source.names, label, table=source.table, headed=False)
    if hasattr(source, "tocoo"):
        return Opened(["user", "item", "value"], label, table=_matrix(source), headed=False)
    table = _frame(source)
    return Opened(table.column_names, label, table=table)


@dataclass
class Opened:
    """A source whose column names are known: a table, or a dataset or texts to be read once columns are chosen."""

    names: list[str]
    label: str
    table: pa.Table | None = None
    dataset: Any = None
    texts: tuple[_Layout, ...] = ()
    headed: bool = True  # whether the names are the source's own, so that there was something to guess
    notes: tuple[str, ...] = ()

    @property
    def from_text(self) -> bool:
        return bool(self.texts)

    @property
    def files(self) -> list[Path]:
        """What is read, in this order."""
        return [text.path for text in self.texts] or [Path(file) for file in self.dataset.files]

    def num_rows(self) -> int | None:
        """The number of rows, where that is known before they are read."""
        try:
            return None if self.dataset is None else int(self.dataset.count_rows())
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.label, error) from None

    def batches(self, names: list[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns, part by part; `ids` of a text file as dictionaries."""
        if self.table is not None:
            yield from self.table.select(names).to_batches(max_chunksize=BATCH_ROWS)
            return
        try:
            texts = (batch for text in self.texts for batch in text.batches(names, ids))
            yield from distrust.as_written(self.label, texts, ids)
            if self.dataset is not None:
                options = {"columns": names, "batch_size": BATCH_ROWS, "batch_readahead": 2}
                yield from distrust.sound(self.dataset, partial(self.dataset.to_batches, **options))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.label, error) from None

    def read(self, names: list[str]) -> pa.Table:
        """All of the named columns at once."""
        if self.table is not None:
            return self.table.select(names)
        schema = self.texts[0].schema(names) if self.texts else self.dataset.schema
        return pa.Table.from_batches(self.batches(names), schema)


def _matrix(source: Any) -> pa.Table:
    matrix = source.tocoo()
    if len(matrix.shape) != 2:
        raise InputError("the sparse matrix must have two dimensions: users and items.")
    stored = matrix.data != 0  # a stored zero is no interaction
    parts = (matrix.row, matrix.col, matrix.data)
    return pa.table([pa.array(part[stored]) for part in parts], names=["user", "item", "value"])


def _frame(source: Any) -> pa.Table:
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
            raise _unreadable(f"the {type(source).__name__}", error) from None


def _unreadable(label: str, error: Exception) -> InputError:
    reason = str(error).strip().split("\n")[0].rstrip(".")[:MOST_OF_A_REASON] or type(error).__name__
    if "UTF8" in reason or "utf-8" in reason:
        return InputError(f"{label} is not UTF-8 text; save it as UTF-8 ({reason}).")
    return InputError(f"{label} cannot be read ({reason}); known are {FILE_KINDS}.")


def open_path(path: Path, label: str, several: bool = False) -> Opened:
    """A file, or a folder: of Parquet files, of one text file, or with `several` of text files of the same columns."""
    if not label or not path.exists():
        raise InputError(f"no file or folder '{label}'; check the path, or see `accord data list` for named datasets.")
    distrust.require_file(path, label)
    files = [path]
    if path.is_dir():
        # its own files and those of partitions (day=1/…): not whatever lies deeper
        files = sorted([*path.glob("*.parquet"), *path.glob("*=*/**/*.parquet")])
        if not files:
            if several and len(texts := _texts(path)) > 1:
                return _together([open_path(file, str(file)) for file in texts], label)
            file = _only_table(path)
            opened = open_path(file, str(file))
            opened.notes = (f"{label}: read {file.name}.", *opened.notes)
            return opened
    try:
        if all(file.suffix in (".parquet", ".pq") for file in files):
            dataset = distrust.parquet(files)
            return Opened(dataset.schema.names, label, dataset=dataset)
        return _open_text(path, label)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(label, error) from None


def _only_table(folder: Path) -> Path:
    """The one file of a folder that can be meant."""
    for known in WELL_KNOWN:
        if (folder / known).is_file():
            return folder / known
    files = _texts(folder)
    if len(files) == 1:
        return files[0]
    if files:
        listing = ", ".join(file.name for file in files[:5])
        raise InputError(f"folder {folder} holds several tables ({listing}); give one of them.")
    raise InputError(f"folder {folder} holds nothing that can be read; known are {FILE_KINDS} and split folders.")


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith(TEXT_SUFFIXES))


def _together(files: list[Opened], label: str) -> Opened:
    """Files of text one after another, by name."""
    for file in files[1:]:
        if file.names != files[0].names:
            raise InputError(
                f"{file.label} has other columns than {files[0].label}; a folder holds the parts of one log."
            )
    texts = tuple(text for file in files for text in file.texts)
    return Opened(files[0].names, label, texts=texts, headed=files[0].headed)


@dataclass(frozen=True)
class _Layout:
    """How a text file is laid out."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    skip: int  # header lines
    quoted: bool

    def schema(self, names: Iterable[str], ids: Collection[str] = ()) -> pa.Schema:
        """Text, whatever it looks like: of `ids` each different one once."""
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
        with distrust.opened(self.path) as stream:
            try:
                yield from pyarrow.csv.open_csv(stream, read, parse, convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):  # a header and nothing below it
                    raise


def _open_text(path: Path, label: str) -> Opened:
    with pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16)
    if b"\0" in start:
        raise InputError(f"{label} is not UTF-8 text; save it as UTF-8, or as Parquet under a name that ends so.")
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
        return Opened(names, label, texts=(_Layout(path, delimiter, tuple(names), 1, quoted),))
    if len(row) > len(col.ROLES):
        raise InputError(f"{label} has {len(row)} columns and no header line; add one that names them.")
    names = list(col.ROLES[: len(row)])
    note = f"{label}: no header line; its columns were read as {', '.join(names)}."
    return Opened(names, label, texts=(_Layout(path, delimiter, tuple(names), 0, quoted),), headed=False, notes=(note,))


def _fields(line: str, delimiter: str, quoted: bool) -> list[str]:
    if len(delimiter) > 1 or not quoted:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])


def is_split_folder(path: Path) -> bool:
    return path.is_dir() and any(any(path.glob(f"*.{part}")) for part in ("train.rating", "test.negative"))


def missing_parts(folder: Path) -> list[str]:
    """What a split folder must have and has not."""
    return [part for part in ("train.rating", "valid.rating", "test.negative") if not any(folder.glob(f"*.{part}"))]


def holds_table(folder: Path) -> bool:
    """Whether a folder has something to read, so that it need not be downloaded."""
    return folder.is_dir() and any(
        file.name in WELL_KNOWN or file.name.endswith((*TEXT_SUFFIXES, ".parquet")) for file in folder.iterdir()
    )


def read_split_folder(folder: Path | str, name: str | None = None) -> Dataset:
    """The paper's layout: NAME.train.rating, NAME.valid.rating, NAME.test.negative (the clean test) and, optional,
    NAME.valid.noisy and NAME.test.noisy; tab-separated user, item and perhaps value, the ids being row numbers."""
    folder = Path(folder).expanduser()
    stems = {file.name.removesuffix(f".{part}") for part in PARTS for file in folder.glob(f"*.{part}")}
    if len(stems) != 1:
        told = "several datasets" if stems else "no NAME.train.rating"
        raise InputError(f"folder {folder} holds {told}; a split folder has the files of one dataset.")
    stem = stems.pop()
    if missing := missing_parts(folder):
        raise InputError(
            f"folder {folder} has no {stem}.{missing[0]}; add that file (user, item and perhaps value, tab-separated),"
            f" or run `accord data get {stem}` if it is a named dataset."
        )
    parts = {part: read_part(folder / f"{stem}.{part}") for part in PARTS if (folder / f"{stem}.{part}").is_file()}

    notes = []
    for part in ("train.rating", "valid.rating", "valid.noisy"):
        if part in parts and (repeated := len(parts[part]) - len(merged := parts[part].merged())):
            parts[part] = merged
            notes.append(f"{stem}.{part}: {repeated} rows repeat a (user, item) pair and were merged.")
    if repeated := len(parts["test.negative"]) - len(parts["test.negative"].merged()):
        notes.append(f"{stem}.test.negative: {repeated} rows repeat a (user, item) pair; the protocol counts them.")
    noisy = parts.get("valid.noisy")
    dataset = Dataset.of(
        name or stem,
        train=parts["train.rating"],
        valid=parts["valid.rating"] if noisy is None else noisy,
        test=parts["test.negative"],
        valid_clean=None if noisy is None else parts["valid.rating"],
        test_noisy=parts.get("test.noisy"),
    )
    notes += splitting.cold_notes(dataset)
    return replace(dataset, users=_row_numbers(dataset.users), items=_row_numbers(dataset.items), notes=tuple(notes))


def _row_numbers(ids: IdMap) -> IdMap:
    """0..largest, when the ids can be row numbers: unused rows count as users or items too, as in the paper's code."""
    if ids.ids.type != pa.int64():
        return ids
    numbers = np.asarray(ids.ids)  # sorted
    dense = numbers[0] >= 0 and numbers[-1] < 10 * len(numbers) + 1000
    return IdMap.range(int(numbers[-1]) + 1) if dense else ids


def read_part(path: Path) -> Interactions:
    """One file of a split folder, its rows as they are."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        width = len(file.readline().rstrip("\n").split("\t"))
    if not 2 <= width <= 4:
        raise InputError(f"{path} must have two or three tab-separated columns (user, item, value), not {width}.")
    names = col.ROLES[:width]
    opened = Opened(list(names), str(path), texts=(_Layout(path, "\t", names, 0, quoted=False),))
    chosen = Columns(**dict(zip(names, names, strict=True)))
    return encoded(str(path), opened.batches(opened.names, names[:2]), chosen, from_text=True)[0]
