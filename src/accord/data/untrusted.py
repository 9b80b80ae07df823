"""Files from outside: decompressed with bounds, false footers refused, NULs left by a crash, ambiguous ids."""

from __future__ import annotations

import functools
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import InputError, shown
from accord.io.csv_safety import is_bare, is_guarded, suspects, unguarded
from accord.io.files import MOST_LISTED, MOST_TIMES, Unfolding, check_footer, check_rows, misnamed, unfoldable

SMALL_TEXT = 2**26  # a compressed log may be MOST_TIMES its size, or this large
IN_NO_ZIP = (".parquet", ".pq", ".orc", ".xlsx", ".xlsm", ".xls", ".zip", ".db", ".sqlite", ".duckdb")
CELL = re.compile(rb"""\br\s*=\s*["']([A-Z]{0,3})([0-9]{1,9})["']""")
MANY_ROWS, FEW_ROWS = 2**20, 2**7  # of Parquet or ORC, read at once
MOST_CELLS = 2**25  # of a sheet, the empty ones among them
NO_NULS = "take it out, or make or copy the file again if a crash left it there"


def require_file(path: Path, label: str) -> None:
    """A log is opened twice, to detect its layout and to read it: a pipe would lose its start."""
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{label} is a pipe or device, not a file, and cannot be read twice; write it to a file.")


def require_utf8_name(path: Path, label: str) -> None:
    """Arrow and JSON, in which the name would be kept, know no other."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{label} has a name that is not UTF-8; rename it.") from None


def inner_name(path: Path) -> str:
    """The name of a file without what says that it is compressed: that of the table in a zip archive."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            return _only_member(path, archive).filename.lower()
    return path.name.lower() if _codec(path) is None else path.stem.lower()


def _codec(path: Path) -> str | None:
    try:
        return str(pa.Codec.detect(path.name.lower()).name)
    except (TypeError, ValueError):  # which it raises for a name without a known ending
        return None


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The text of a file, decompressed if its name says that it is compressed."""
    if path.suffix.lower() == ".zip":
        with _unzipped(path) as stream:
            yield stream
        return
    codec = _codec(path)
    with pa.OSFile(str(path)) as file, pa.input_stream(file, compression=codec) as stream:
        yield stream if codec is None else _Decompressed(path, stream, file.tell)


@contextmanager
def _unzipped(path: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            member = _only_member(path, archive)
            with archive.open(member) as stream:
                yield _Decompressed(path, stream, lambda: min(member.compress_size, path.stat().st_size))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError) as error:
        if isinstance(error, InputError | pa.ArrowException):
            raise
        raise InputError(f"{path} cannot be unpacked ({error}); unpack it yourself.") from None


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one table in an archive; what a Mac adds does not count."""
    members = [
        one
        for one in archive.infolist()
        if not one.is_dir() and not one.filename.startswith("__MACOSX/") and not Path(one.filename).name.startswith(".")
    ]
    if len(members) != 1:
        held = f"{len(members)} files" if members else "no file"
        raise InputError(f"{path} holds {held}; give an archive with one table, or unpack it.")
    if members[0].filename.lower().endswith(IN_NO_ZIP) or _codec(Path(members[0].filename)) is not None:
        raise InputError(f"{path} holds {shown(members[0].filename)}, which is read only outside of it: unpack it.")
    return members[0]


class _Decompressed(io.RawIOBase):
    """Stops when far more has come out than went in. Arrow reads ahead, so its own position would not tell."""

    def __init__(self, path: Path, stream: Any, went_in: Callable[[], int]) -> None:
        self.path, self.stream, self.went_in, self.size = path, stream, went_in, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text: bytes = self.stream.read(min(size, SMALL_TEXT) if size >= 0 else SMALL_TEXT)
        self.size += len(text)
        if self.size > max(SMALL_TEXT, MOST_TIMES * self.went_in()):
            raise InputError(
                f"{self.path} decompresses to more than {MOST_TIMES} times its size, as no log does; decompress it"
                " yourself if you trust it."
            )
        return text


def check_sheets(path: Path, label: str) -> None:
    """Refuse an Excel file that would unfold in memory: one that is mostly air, or with cells far from all others,
    between which a reader makes room for every cell."""
    try:
        with zipfile.ZipFile(path) as book:
            for member in book.infolist():
                with book.open(member) as stream:
                    text, rows, columns, size = b"", 0, 0, 0
                    while more := stream.read(2**20):
                        size += len(more)
                        if size > max(SMALL_TEXT, MOST_TIMES * path.stat().st_size):
                            raise InputError(
                                f"{label} decompresses to more than {MOST_TIMES} times its size, as no log does; save"
                                " it as CSV if you trust it."
                            )
                        text = text[-64:] + more
                        if "worksheets/" in member.filename:
                            for found in CELL.finditer(text):
                                rows, columns = max(rows, int(found[2])), max(columns, _column(found[1]))
                    if rows * max(columns, 1) > MOST_CELLS:
                        raise InputError(
                            f"{label} has cells in {rows:,} rows and {columns:,} columns, more than is read; save it"
                            " as CSV."
                        )
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{label} cannot be read as Excel ({error}); save it again, or as CSV.") from None


def _column(letters: bytes) -> int:
    """A is 1, AA is 27."""
    return functools.reduce(lambda number, letter: 26 * number + letter - 64, letters, 0)


def tables(files: Sequence[Path], kind: str, folder: Path | None = None) -> tuple[Any, int]:
    """A dataset of Parquet or ORC files whose footers were checked, and how many rows of it to read at once. The
    partitions of a folder (day=1/…) are columns of it.

    Text of Parquet comes as dictionaries, where they may stand for any amount of text; few rows are read at once where
    Arrow cannot do that."""
    from pyarrow import dataset as arrow  # here and not above: it imports pandas where that is installed

    paths: dict[str, Any] = {"source": [str(file) for file in files]}
    if folder is not None:
        paths |= {"partitioning": "hive", "partition_base_dir": str(folder)}
    if kind == "orc":
        dataset = arrow.dataset(**paths, format="orc")
        for fragment in dataset.get_fragments():
            check_rows(Path(fragment.path), fragment.count_rows())
        return dataset, FEW_ROWS
    options = arrow.ParquetFragmentScanOptions(thrift_container_size_limit=MOST_LISTED)
    dataset = arrow.dataset(**paths, format=arrow.ParquetFileFormat(default_fragment_scan_options=options))
    fragments, unfolded = list(dataset.get_fragments()), set[str]()
    for fragment in fragments:
        check_footer(Path(fragment.path), fragment.metadata)
        unfolded |= unfoldable(fragment.metadata)
    schemas = [fragment.physical_schema for fragment in fragments]
    texts = {name for name in dataset.schema.names if all(_is_text(schema, name) for schema in schemas)}
    folded = arrow.ParquetReadOptions(dictionary_columns=texts - unfolded)
    kept = arrow.ParquetFileFormat(read_options=folded, default_fragment_scan_options=options)
    return arrow.dataset(**paths, format=kept), FEW_ROWS if texts & unfolded else MANY_ROWS


def names_of(file: Path, kind: str) -> list[str]:
    """The columns of a Parquet or ORC file, repeated ones too, of which Arrow makes no dataset."""
    from pyarrow import orc, parquet

    try:
        if kind == "orc":
            return list(orc.ORCFile(file).schema.names)
        return list(parquet.ParquetFile(file, thrift_container_size_limit=MOST_LISTED).schema_arrow.names)
    except UnicodeDecodeError:
        raise misnamed(file) from None


def few_at_once(dataset: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Columns of a dataset of Parquet files, few rows at once, where the dataset itself would decode a whole group."""
    import pyarrow.parquet as pq
    from pyarrow import dataset as arrow

    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in dataset.schema}
    for fragment in dataset.get_fragments():
        keys = arrow.get_partition_keys(fragment.partition_expression)
        with pq.ParquetFile(fragment.path, thrift_container_size_limit=MOST_LISTED) as file:
            own = [name for name in names if name in file.schema_arrow.names]
            for batch in file.iter_batches(FEW_ROWS, columns=own, use_threads=False):
                columns = [
                    batch.column(name).cast(kinds[name])
                    if name in own
                    else pa.array([keys.get(name)] * batch.num_rows, kinds[name])
                    for name in names
                ]
                yield pa.record_batch(columns, names)


def _is_text(schema: pa.Schema, name: str) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return len(schema.get_all_field_indices(name)) == 1 and any(kind(schema.field(name).type) for kind in kinds)


def sound(dataset: Any, read: Callable[[], Iterable[pa.RecordBatch]], ids: Collection[str] = ()) -> Iterator[Any]:
    """Batches of a dataset of files, with text that unfolds to no more than it may; `ids` stay dictionaries."""
    unfolding = Unfolding([Path(file) for file in dataset.files])
    for batch in read():
        batch.validate(full=True)  # Arrow does not check that text is UTF-8
        yield unfolding.plain(batch, ids)


def as_written(
    label: str, batches: Iterable[pa.RecordBatch], ids: Collection[str], notes: list[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of text with the ids as they were before they went into a CSV file; InputError where that is unclear.

    What was removed is added to `notes`.
    """
    seen: dict[str, dict[str, str]] = {
        name: {} for name in ids
    }  # the first id that would run as a formula, and the first with a ' before it
    before = 0
    for batch in batches:
        for name in ids:
            column = batch.column(name)
            texts = column.dictionary
            if pc.any(nul := pc.match_substring(texts, "\0")).as_py():
                place = pc.index(nul, True).as_py()
                row = before + pc.index(column.indices, place).as_py() + 1
                raise InputError(
                    f"{label}: column '{name}' has a NUL byte in {shown(texts[place].as_py())}, row {row:,}; {NO_NULS}."
                )
            odd = suspects(texts)
            for kind, found in (("bare", odd.filter(is_bare(odd))), ("guarded", odd.filter(is_guarded(odd)))):
                if len(found) and kind not in seen[name]:
                    seen[name][kind] = shown(found[0].as_py())
                    if kind == "guarded":
                        notes.append(
                            f"{label}: the leading ' of ids such as {seen[name][kind]} in column '{name}' was taken for"
                            " a spreadsheet's text mark and removed."
                        )
            if len(seen[name]) == 2:
                raise InputError(
                    f"{label}: column '{name}' has both {seen[name]['bare']} and {seen[name]['guarded']}, where a ' may"
                    " be a spreadsheet's text mark or part of the id; write all such ids the same way."
                )
            if "guarded" in seen[name]:
                texts = pa.DictionaryArray.from_arrays(column.indices, unguarded(texts))
                batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
        before += batch.num_rows
        yield batch
