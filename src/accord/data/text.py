"""Tables that are text: CSV and its relatives, and JSON Lines. Cells stay text."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

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
LINES_AT_ONCE = 2**16  # rows in a batch, where Python reads them
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
NOT_TEXT = {
    b"PK\x03\x04": "a sheet or a zip archive; save a sheet as CSV, and name an archive .zip",
    b"\xd0\xcf\x11\xe0": "an Excel file; save it as CSV",
    b"PAR1": "Parquet; name it .parquet",
    b"ORC": "ORC, which is not read; save it as Parquet",
    b"\x1f\x8b": "compressed; name it .gz",
    b"\x28\xb5\x2f\xfd": "compressed; name it .zst",
    b"BZh": "compressed; name it .bz2",
    b"SQLite format 3\0": "an SQLite database; give it as sqlite:///PATH with a query",
}


@dataclass(frozen=True)
class Delimited:
    path: Path
    delimiter: str
    names: tuple[str, ...]
    skip: int  # header lines
    quoted: bool

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
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
            include_columns=names, column_types=text_schema(names), strings_can_be_null=False
        )
        with untrusted.open_text(self.path) as stream:
            try:
                yield from pyarrow.csv.open_csv(stream, read, parse, convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):  # a header and nothing below it
                    raise


@dataclass(frozen=True)
class Words:
    """Lines of words with blanks between them."""

    path: Path
    names: tuple[str, ...]
    skip: int  # header lines

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in _as_batches(self.path, self._rows(), self.names):
            yield batch.select(list(names))

    def _rows(self) -> Iterator[Sequence[str]]:
        with untrusted.open_text(self.path) as stream:
            lines = ((number, line.split()) for number, line in enumerate(_lines(self.path, stream), start=1))
            for number, words in islice((line for line in lines if line[1]), self.skip, None):
                if len(words) != len(self.names):
                    cells = f"line {number} has {len(words)} cells and not {len(self.names)}"
                    raise InputError(f"{self.path} cannot be read ({cells}); give every row the same number of cells.")
                yield words


@dataclass(frozen=True)
class JsonLines:
    path: Path
    names: tuple[str, ...]

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        def rows() -> Iterator[list[str | None]]:
            with untrusted.open_text(self.path) as stream:
                for number, line in enumerate(_lines(self.path, stream), start=1):
                    if line.strip():
                        content = _object(self.path, number, line)
                        yield [self._cell(number, name, content.get(name)) for name in names]

        return _as_batches(self.path, rows(), names)

    def _cell(self, number: int, name: str, value: Any) -> str | None:
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "a list"
            raise InputError(f"{self.path}: '{name}' is {kind} in line {number}; give a column of numbers or text.")
        return None if value is None else str(int(value) if isinstance(value, bool) else value)


TextTable = Delimited | Words | JsonLines


def text_schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _as_batches(path: Path, rows: Iterator[Sequence[str | None]], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    while block := list(islice(rows, LINES_AT_ONCE)):
        try:
            columns = [pa.array(column, pa.string()) for column in zip(*block, strict=True)]
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can write
            raise InputError(f"{path} is not UTF-8 text ({error}); write it again.") from None
        yield pa.RecordBatch.from_arrays(columns, schema=text_schema(names))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {number} is not JSON ({error}); write one object a line.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: line {number} is {shown(content)}, not an object; write one object a line.")
    return content


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


def detect(path: Path, label: str) -> tuple[TextTable, bool, str | None]:
    """How a text file is laid out, whether it has a header, and a note where it does not."""
    name = untrusted.inner_name(path)
    start = _start(path, label)
    is_complete = len(start) < START
    lines = [line.rstrip("\r") for line in start.decode("utf-8-sig", errors="replace").split("\n") if line.strip()]
    if not lines:
        raise InputError(f"{label} is empty: it has no rows of interactions; give a log that has some.")
    if name.endswith(JSON_SUFFIXES) or lines[0].lstrip().startswith("{"):
        return JsonLines(path, _keys(path, label, lines, is_complete)), True, None
    quoted = name.endswith((".csv", ".tsv", ".txt"))
    delimiter, row = _split(lines[0], quoted)
    if len(row) < 2:
        raise InputError(
            f"{label} has one column only; separate user and item by a comma, semicolon, tab, vertical bar or blank."
        )
    names, note = _header(row), None
    headed = names is not None and not _is_data(row, lines[1:], delimiter, quoted)
    if names is None or not headed:
        names = _names_without_header(label, row)
        note = f"{label}: no header line; its columns were read as {', '.join(names)}."
    if delimiter == " ":
        return Words(path, names, int(headed)), headed, note
    return Delimited(path, delimiter, names, int(headed), quoted), headed, note


def _header(row: Sequence[str]) -> tuple[str, ...] | None:
    """The names of columns in the first row; None where it is data: something in it is a number."""
    if not any(col.is_usual("user", cell) for cell in row) and any(NUMBER.fullmatch(cell.strip()) for cell in row):
        return None
    recbole = [RECBOLE_FIELD.fullmatch(cell) for cell in row]
    return tuple(match[1] for match in recbole if match) if all(recbole) else tuple(cell.strip() for cell in row)


def _is_data(row: Sequence[str], lines: Sequence[str], delimiter: str, quoted: bool) -> bool:
    """Whether a first row without a number is data all the same: none of its cells is a usual name, and one of them is
    in the same column of another row. (A row that is the same as a whole may be a header that was written twice.)"""
    if any(col.is_usual(role, cell) for role in col.USUAL_NAMES for cell in row):
        return False
    others = [line.split() if delimiter == " " else _cells(line, delimiter, quoted) for line in lines]
    return any(other != row and any(a == b != "" for a, b in zip(other, row, strict=False)) for other in others)


def _names_without_header(label: str, row: Sequence[str]) -> tuple[str, ...]:
    """Names for the columns of a table that has none: a third one that is a moment holds times, else values."""
    if len(row) > len(col.GUESSED):
        raise InputError(f"{label} has {len(row)} columns and no header line; add one that names them.")
    if len(row) == 3 and is_moment(row[2]):
        return "user", "item", "time"
    return col.GUESSED[: len(row)]


def _start(path: Path, label: str) -> bytes:
    """The beginning of a file, with at least its first line."""
    with untrusted.open_text(path) as stream:
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
    # one of every two bytes of Latin letters; after a byte order mark it is no UTF-8
    is_utf16 = start[:2].count(0) == 1
    with suppress(UnicodeDecodeError):
        line = before.decode().count("\n") + 1
        if not is_utf16:
            return f"has a NUL byte in line {line:,}; {untrusted.REMOVE_NUL}."
    return "is not UTF-8 text; save it as UTF-8, or as Parquet in a file named *.parquet."


def _split(line: str, quoted: bool) -> tuple[str, list[str]]:
    """The delimiter that makes most cells of a line, and these; blanks only where there is no other."""
    rows = {mark: _cells(line, mark, quoted) for mark in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda mark: len(rows[mark]))
    if len(rows[delimiter]) < 2 and len(words := line.split()) > 1:
        return " ", words
    return delimiter, rows[delimiter]


def _cells(line: str, delimiter: str, quoted: bool) -> list[str]:
    if len(delimiter) > 1 or not quoted or delimiter not in line:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])


def _keys(path: Path, label: str, lines: Sequence[str], is_complete: bool) -> tuple[str, ...]:
    if lines[0].lstrip().startswith("["):
        raise InputError(f"{label} is one JSON array; write one object a line instead (JSON Lines).")
    keys: dict[str, None] = {}
    for number, line in enumerate(lines if is_complete or len(lines) == 1 else lines[:-1], start=1):
        keys |= dict.fromkeys(_object(path, number, line))
    return tuple(keys)
