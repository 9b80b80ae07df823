"""Checks on files from outside: decompression bombs, false footers, NULs left by a crash, ambiguous ids."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import InputError, shown
from accord.io.csv_safety import is_bare, is_guarded, suspects, unguarded
from accord.io.files import MOST_LISTED, check_footer

MOST_TIMES, SMALL_TEXT = 100, 2**26  # a compressed log may be this many times its size, or this large


def require_file(path: Path, label: str) -> None:
    """A log is opened twice, to detect its layout and to read it: a pipe would lose its start."""
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{label} is a pipe or device, not a file, and cannot be read twice; write it to a file.")


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The text of a file, decompressed if its name says that it is compressed."""
    try:
        codec = pa.Codec.detect(str(path)).name
    except (TypeError, ValueError):  # which it raises for a name without a known ending
        codec = None
    with pa.OSFile(str(path)) as file, pa.input_stream(file, compression=codec) as stream:
        yield stream if codec is None else _Decompressed(path, file, stream)


class _Decompressed(io.RawIOBase):
    """Stops when far more has come out than went in. Arrow reads ahead, so its own position would not tell."""

    def __init__(self, path: Path, file: Any, stream: Any) -> None:
        self.path, self.file, self.stream, self.size = path, file, stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text: bytes = self.stream.read(size)
        self.size += len(text)
        if self.size > max(SMALL_TEXT, MOST_TIMES * self.file.tell()):
            raise InputError(
                f"{self.path} decompresses to more than {MOST_TIMES} times its size, as no log does; decompress it"
                " yourself if you trust it."
            )
        return text


def parquet(files: Sequence[Path]) -> Any:
    """A dataset of Parquet files."""
    from pyarrow import dataset as tables  # here and not above: it imports pandas where that is installed

    options = tables.ParquetFragmentScanOptions(thrift_container_size_limit=MOST_LISTED)
    kind = tables.ParquetFileFormat(default_fragment_scan_options=options)
    return tables.dataset([str(file) for file in files], format=kind)


def sound(dataset: Any, read: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches of a dataset of Parquet files, read once the footers of the files are checked."""
    for fragment in dataset.get_fragments():
        check_footer(Path(fragment.path), fragment.metadata)
    for batch in read():
        batch.validate(full=True)  # Arrow does not check that text is UTF-8
        yield batch


def as_written(
    label: str, batches: Iterable[pa.RecordBatch], ids: Collection[str], notes: list[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of text with the ids as they were before they went into a CSV file; InputError where that is unclear.

    What was removed is added to `notes`.
    """
    seen: dict[str, dict[str, str]] = {
        name: {} for name in ids
    }  # the first id that would run as a formula, and the first with a ' before it
    for batch in batches:
        for name in ids:
            column = batch.column(name)
            texts = column.dictionary
            if pc.any(nul := pc.match_substring(texts, "\0")).as_py():
                damaged = shown(texts[pc.index(nul, True).as_py()].as_py())
                raise InputError(
                    f"{label}: column '{name}' has NUL characters in {damaged}: the file is damaged; repair it."
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
        yield batch
