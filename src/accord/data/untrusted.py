"""What a file must not get away with: bombs, false footers, zeros left by a crash, ids that could be two things."""

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

MOST_TIMES, SMALL_TEXT = 100, 2**26  # so many times its size a compressed log may be, where that is not little


def require_file(path: Path, label: str) -> None:
    """A log is read twice, to look at its start and to read it: a pipe would lose what was looked at."""
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{label} is no file but a pipe or device, which cannot be read twice; write it to a file.")


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The text of a file, unpacked if its name says that it is packed."""
    try:
        codec = pa.Codec.detect(str(path)).name
    except (TypeError, ValueError):  # which it raises for a name without a known ending
        codec = None
    with pa.OSFile(str(path)) as file, pa.input_stream(file, compression=codec) as stream:
        yield stream if codec is None else _Unpacked(path, file, stream)


class _Unpacked(io.RawIOBase):
    """Reads on until what came out is far more than what went in. Arrow reads ahead, so its place would say nothing."""

    def __init__(self, path: Path, file: Any, stream: Any) -> None:
        self.path, self.file, self.stream, self.size = path, file, stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text: bytes = self.stream.read(size)
        self.size += len(text)
        if self.size > max(SMALL_TEXT, MOST_TIMES * self.file.tell()):
            raise InputError(
                f"{self.path} holds more than {MOST_TIMES} times its size, as no log does; unpack it first if you"
                " trust it."
            )
        return text


def parquet(files: Sequence[Path]) -> Any:
    """A dataset of Parquet files."""
    from pyarrow import dataset as tables  # here and not above: it imports pandas where that is installed

    options = tables.ParquetFragmentScanOptions(thrift_container_size_limit=MOST_LISTED)
    kind = tables.ParquetFileFormat(default_fragment_scan_options=options)
    return tables.dataset([str(file) for file in files], format=kind)


def sound(dataset: Any, read: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches of a dataset of Parquet files, which are read after a look at what these claim."""
    for fragment in dataset.get_fragments():
        check_footer(Path(fragment.path), fragment.metadata)
    for batch in read():
        batch.validate(full=True)  # that its text is UTF-8, Arrow takes on trust
        yield batch


def as_written(
    label: str, batches: Iterable[pa.RecordBatch], ids: Collection[str], notes: list[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of text with the ids as they were before they went into a CSV file; InputError where that is unclear.

    What was taken away is added to `notes`.
    """
    seen: dict[str, dict[str, str]] = {name: {} for name in ids}  # an id that would run, and one with a ' before
    for batch in batches:
        for name in ids:
            column = batch.column(name)
            texts = column.dictionary
            if pc.any(nul := pc.match_substring(texts, "\0")).as_py():
                damaged = shown(texts[pc.index(nul, True).as_py()].as_py())
                raise InputError(f"{label}: column '{name}' has NUL characters in {damaged}: it is damaged; mend it.")
            odd = suspects(texts)
            for kind, found in (("bare", odd.filter(is_bare(odd))), ("guarded", odd.filter(is_guarded(odd)))):
                if len(found) and kind not in seen[name]:
                    seen[name][kind] = shown(found[0].as_py())
                    if kind == "guarded":
                        notes.append(
                            f"{label}: the first ' of ids of column '{name}' such as {seen[name][kind]} was taken for "
                            "a spreadsheet's mark of text, and is left out."
                        )
            if len(seen[name]) == 2:
                raise InputError(
                    f"{label}: column '{name}' has both {seen[name]['bare']} and {seen[name]['guarded']}, where a ' may"
                    " be a spreadsheet's mark of text or a part of the id; write all such ids alike."
                )
            if "guarded" in seen[name]:
                texts = pa.DictionaryArray.from_arrays(column.indices, unguarded(texts))
                batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
        yield batch
