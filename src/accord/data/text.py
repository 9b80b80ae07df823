"""Tables that are text: CSV and its relatives, JSON Lines, and lines of a user with its items. Cells stay text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.csv

from accord.data import columns as col
from accord.data import untrusted
from accord.data.times import is_moment
from accord.errors import InputError, shown

DELIMITERS = ("::", "\t", ",", ";", "|")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
RECBOLE_FIELD = re.compile(r"(.+):(token|token_seq|float|float_seq)")
TEXT_BLOCK = 2**24  # bytes of text that are read at once
START, LONGEST_LINE = 2**16, 2**24  # bytes that are looked at first, and at most, for the first line
LINES_AT_ONCE = 2**16  # objects of JSON Lines, or rows of a sheet, in a batch
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive; name it .zip, or .xlsx if it is a sheet",
    b"\xd0\xcf\x11\xe0": "an Excel file; name it .xls",
    b"PAR1": "Parquet; name it .parquet",
    b"ORC": "ORC; name it .orc",
    b"\x1f\x8b": "compressed; name it .gz",
    b"\x28\xb5\x2f\xfd": "compressed; name it .zst",
    b"BZh": "compressed; name it .bz2",
    b"SQLite format 3\0": "an SQLite database; give it as sqlite:///PATH with a query",
}


class TextTable(Protocol):
    """A file whose cells are read as text."""

    exact: ClassVar[bool]  # whether ids come as they were written, so that no spreadsheet has put a mark before them

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The named columns, `ids` as dictionaries."""


def schema(names: Iterable[str], ids: Collection[str] = ()) -> pa.Schema:
    """All columns as text, `ids` as dictionaries."""
    return pa.schema([(name, pa.dictionary(pa.int32(), pa.string()) if name in ids else pa.string()) for name in names])


def as_batches(
    path: Path, rows: Iterable[Sequence[str | None]], names: Sequence[str], ids: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of text as batches."""
    waiting: list[Sequence[str | None]] = []

    def batch() -> pa.RecordBatch:
        try:
            columns = [pa.array(column, pa.string()) for column in zip(*waiting, strict=True)]
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can write
            raise InputError(f"{path} is not UTF-8 text ({error}); write it again.") from None
        columns = [
            column.dictionary_encode() if name in ids else column for name, column in zip(names, columns, strict=True)
        ]
        waiting.clear()
        return pa.RecordBatch.from_arrays(columns, schema=schema(names, ids))

    for row in rows:
        waiting.append(row)
        if len(waiting) == LINES_AT_ONCE:
            yield batch()
    if waiting:
        yield batch()


@dataclass(frozen=True)
class Layout:
    """How a text file of rows and columns is laid out."""

    path: Path
    delimiter: str
    names: tuple[str, ...]
    skip: int  # header lines
    quoted: bool
    exact: ClassVar[bool] = False

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
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
            include_columns=names, column_types=schema(names, ids), strings_can_be_null=False
        )
        with untrusted.opened(self.path) as stream:
            try:
                yield from pyarrow.csv.open_csv(
                    _Squeezed(stream) if self.delimiter == " " else stream, read, parse, convert
                )
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):  # a header and nothing below it
                    raise


class _Squeezed(io.RawIOBase):
    """Lines with one blank where there are several, and none at their ends."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.rest: bytes = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while text := self.stream.read(TEXT_BLOCK if size < 0 else max(size - len(self.rest), 1)):
            lines, newline, rest = bytes(self.rest + text).rpartition(b"\n")
            self.rest = rest
            if newline:
                return _squeezed(lines) + newline
            if len(rest) >= LONGEST_LINE:
                raise InputError(f"a line is longer than {LONGEST_LINE // 2**20} MB; is it a log?")
        last, self.rest = self.rest, b""
        return _squeezed(last)


def _squeezed(text: bytes) -> bytes:
    return re.sub(rb"^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", text), flags=re.MULTILINE)


@dataclass(frozen=True)
class ItemLists:
    """A line has a user and then all of its items, separated by blanks; the items may be none."""

    path: Path
    names: tuple[str, ...] = ("user", "item")
    exact: ClassVar[bool] = True

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        def rows() -> Iterator[tuple[str, ...]]:
            with untrusted.opened(self.path) as stream:
                for line in _lines(self.path, stream):
                    user, *items = line.split() or [""]
                    yield from ((user, item) for item in items)

        for batch in as_batches(self.path, rows(), self.names, ids):
            yield batch.select(list(names))


@dataclass(frozen=True)
class JsonLines:
    """One JSON object a line."""

    path: Path
    names: tuple[str, ...]
    exact: ClassVar[bool] = True

    def batches(self, names: Sequence[str], ids: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        def rows() -> Iterator[list[str | None]]:
            with untrusted.opened(self.path) as stream:
                for number, line in enumerate(_lines(self.path, stream), start=1):
                    if line.strip():
                        found = _object(self.path, number, line)
                        yield [self._cell(number, name, found.get(name), name in ids) for name in names]

        return as_batches(self.path, rows(), names, ids)

    def _cell(self, number: int, name: str, value: Any, is_id: bool) -> str | None:
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "a list"
            raise InputError(f"{self.path}: '{name}' is {kind} in line {number}; give a column of numbers or text.")
        return as_text(value, is_id)


def as_text(value: Any, is_id: bool) -> str | None:
    """A cell that is not text already as text."""
    if isinstance(value, bool):
        return str(value).lower() if is_id else str(int(value))
    return None if value is None else str(value)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {number} is not JSON ({error}); write one object a line.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: line {number} is {shown(found)}, not an object; write one object a line.")
    return found


def _lines(path: Path, stream: Any) -> Iterator[str]:
    """Lines of UTF-8 text, none of them longer than is reasonable."""
    rest = b""
    while block := stream.read(2**20):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise InputError(f"{path} has a line of more than {LONGEST_LINE // 2**20} MB; write one row a line.")
        yield from (_decoded(path, line) for line in lines)
    if rest:
        yield _decoded(path, rest)


def _decoded(path: Path, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if line.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8 ({error}).") from None


def open_text(path: Path, label: str) -> tuple[TextTable, bool, str | None]:
    """A text file, whether its names are its own, and a note."""
    name = untrusted.inner_name(path)
    start = _start(path, label)
    text = start.decode("utf-8-sig", errors="replace")
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise InputError(f"{label} is empty: it has no rows of interactions; give a log that has some.")
    first = lines[0]
    if name.endswith(JSON_SUFFIXES) or first.lstrip().startswith("{"):
        return JsonLines(path, _keys(path, label, lines, complete=len(start) < START)), True, None
    quoted = name.endswith((".csv", ".tsv", ".txt"))
    delimiter, row = _split(first, quoted)
    if len(row) < 2:
        raise InputError(
            f"{label} has one column only; separate user and item by a comma, semicolon, tab, vertical bar or blank."
        )
    if (found := header(row)) is not None and not _comes_again(row, lines[1:], delimiter, quoted):
        return Layout(path, delimiter, found, 1, quoted), True, None
    if delimiter == " " and _are_item_lists(lines if len(start) < START else lines[:-1]):
        return ItemLists(path), False, f"{label}: lines of different lengths were read as a user and then its items."
    names = unnamed(label, row)
    note = f"{label}: no header line; its columns were read as {', '.join(names)}."
    return Layout(path, delimiter, names, 0, quoted), False, note


def header(row: Sequence[str]) -> tuple[str, ...] | None:
    """The names of columns in the first row; None where it is data: something in it is a number."""
    if not any(col.is_usual("user", cell) for cell in row) and any(NUMBER.fullmatch(cell.strip()) for cell in row):
        return None
    recbole = [RECBOLE_FIELD.fullmatch(cell) for cell in row]
    return tuple(match[1] for match in recbole if match) if all(recbole) else tuple(cell.strip() for cell in row)


def _comes_again(row: Sequence[str], lines: Sequence[str], delimiter: str, quoted: bool) -> bool:
    """Whether a first row without a number is data all the same: none of its cells is a usual name, and one of them is
    in the same column of another row. (A row that is the same as a whole may be a header that was written twice.)"""
    if any(col.is_usual(role, cell) for role in col.USUAL_NAMES for cell in row):
        return False
    others = [line.split() if delimiter == " " else _fields(line, delimiter, quoted) for line in lines]
    return any(other != row and any(a == b != "" for a, b in zip(other, row, strict=False)) for other in others)


def unnamed(label: str, row: Sequence[Any]) -> tuple[str, ...]:
    """Names for the columns of a table that has none: a third one that is a moment holds times, else values."""
    if len(row) > len(col.GUESSED):
        raise InputError(f"{label} has {len(row)} columns and no header line; add one that names them.")
    if len(row) == 3 and is_moment(str(row[2])):
        return "user", "item", "time"
    return tuple(col.GUESSED[: len(row)])


def _start(path: Path, label: str) -> bytes:
    """The beginning of a file, with its first line whole."""
    with untrusted.opened(path) as stream:
        start: bytes = stream.read(START)
        for magic, what in NOT_TEXT.items():
            if start.startswith(magic):
                raise InputError(f"{label} is {what}.")
        if b"\0" in start:
            raise InputError(f"{label} {_not_text(start)}")
        while b"\n" not in start.lstrip() and (more := stream.read(START)):
            start += more
            if len(start) > LONGEST_LINE:
                raise InputError(f"{label}: the first line is longer than {LONGEST_LINE // 2**20} MB; is it a log?")
    return start


def _not_text(start: bytes) -> str:
    """What is wrong with the beginning of a file that has a NUL byte in it."""
    before, _, _ = start.partition(b"\0")
    utf16 = start[:2].count(0) == 1  # one of every two bytes of plain letters; with a mark before them it is no UTF-8
    with suppress(UnicodeDecodeError):
        line = before.decode().count("\n") + 1
        if not utf16:
            return f"has a NUL byte in line {line:,}; {untrusted.NO_NULS}."
    return "is not UTF-8 text; save it as UTF-8, or as Parquet in a file named *.parquet."


def _split(line: str, quoted: bool) -> tuple[str, list[str]]:
    """The delimiter that makes most fields of a line, and these; blanks only where there is no other."""
    rows = {mark: _fields(line, mark, quoted) for mark in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda mark: len(rows[mark]))
    if len(rows[delimiter]) < 2 and len(words := line.split()) > 1:
        return " ", _fields(" ".join(words), " ", quoted)
    return delimiter, rows[delimiter]


def _fields(line: str, delimiter: str, quoted: bool) -> list[str]:
    if len(delimiter) > 1 or not quoted or delimiter not in line:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])


def _are_item_lists(lines: Sequence[str]) -> bool:
    """Integers only, and lines of different lengths, of which some are longer than a row without a header can be."""
    words = [line.split() for line in lines]
    lengths = {len(line) for line in words}
    return (
        len(lengths) > 1 and max(lengths) > len(col.GUESSED) and all(word.isdigit() for line in words for word in line)
    )


def _keys(path: Path, label: str, lines: Sequence[str], complete: bool) -> tuple[str, ...]:
    """The keys of the first objects of JSON Lines, in order."""
    if lines[0].lstrip().startswith("["):
        raise InputError(f"{label} is one JSON array; write one object a line instead (JSON Lines).")
    whole = lines if complete or len(lines) == 1 else lines[:-1]
    keys: dict[str, None] = {}
    for number, line in enumerate(whole, start=1):
        keys |= dict.fromkeys(_object(path, number, line))
    return tuple(keys)
