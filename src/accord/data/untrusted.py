"""Text files from outside: decompressed with bounds, NULs left by a crash refused, spreadsheets' text marks removed."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from accord.errors import InputError, shown
from accord.io.csv_safety import is_guarded, unguarded
from accord.io.parquet import MOST_TIMES

SMALL_TEXT = 2**26  # a compressed log may be MOST_TIMES its size, or this large
NOT_IN_ZIP = (".parquet", ".pq", ".xlsx", ".xlsm", ".xls", ".zip", ".db", ".sqlite", ".duckdb")
REMOVE_NUL = "take it out, or make or copy the file again if a crash left it there"


def in_archive(path: Path) -> tuple[Path, str]:
    """The archive and the table of a path such as archive.zip:ratings.dat; any other path, and no table."""
    archive, found, member = str(path).rpartition(".zip:")
    return (Path(f"{archive}.zip"), member) if found and not path.exists() else (path, "")


def inner_name(path: Path) -> str:
    """The name of a file without the suffix of its compression; the name of the table in a zip archive."""
    file, member = in_archive(path)
    if file.suffix.lower() == ".zip":
        with zipfile.ZipFile(file) as archive:
            return _member(file, archive, member).filename.lower()
    return path.name.lower() if _codec(path) is None else path.stem.lower()


def _codec(path: Path) -> str | None:
    try:
        return str(pa.Codec.detect(path.name.lower()).name)
    except (TypeError, ValueError):  # the name has no suffix of a compression
        return None


@contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """The text of a file, decompressed if its name says that it is compressed."""
    archive, member = in_archive(path)
    if archive.suffix.lower() == ".zip":
        with _open_zip(archive, member) as stream:
            yield stream
        return
    codec = _codec(path)
    with pa.OSFile(str(path)) as file, pa.input_stream(file, compression=codec) as stream:
        yield stream if codec is None else _Decompressed(path, stream, file.tell)


@contextmanager
def _open_zip(path: Path, name: str) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            member = _member(path, archive, name)
            with archive.open(member) as stream:
                yield _Decompressed(path, stream, lambda: min(member.compress_size, path.stat().st_size))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError) as error:
        if isinstance(error, InputError | pa.ArrowException):
            raise
        raise InputError(f"{path} cannot be unpacked ({error}); unpack it yourself.") from None


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """The table of this name in an archive, with or without its folder, or the only one; what a Mac adds does not
    count."""
    members = [
        one
        for one in archive.infolist()
        if not one.is_dir() and not one.filename.startswith("__MACOSX/") and not Path(one.filename).name.startswith(".")
    ]
    names = [one.filename for one in members]
    chosen = [one for one in members if name in ("", one.filename)]
    chosen = chosen or [one for one in members if name == Path(one.filename).name]
    if len(chosen) != 1:
        listing = ", ".join(map(shown, names[:5])) + (", …" if len(names) > 5 else "")
        files = "1 file" if len(names) == 1 else f"{len(names)} files"
        held = f"{files} ({listing}); give one of them, as {path}:{names[0]}" if names else "no file"
        named = f"no file {shown(name)} but " if name and names else ""
        raise InputError(f"{path} holds {named}{held}, or unpack it.")
    (member,) = chosen
    if member.filename.lower().endswith(NOT_IN_ZIP) or _codec(Path(member.filename)) is not None:
        raise InputError(f"{path} holds {shown(member.filename)}, which is not read from an archive: unpack it.")
    return member


class _Decompressed(io.RawIOBase):
    """Stops when far more has come out than went in. Arrow reads ahead, so its position would not tell."""

    def __init__(self, path: Path, stream: Any, went_in: Callable[[], int]) -> None:
        self.path, self.stream, self.went_in, self.size = path, stream, went_in, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        text: bytes = self.stream.read(min(size, SMALL_TEXT) if size >= 0 else SMALL_TEXT)
        self.size += len(text)
        if self.size > max(SMALL_TEXT, MOST_TIMES * self.went_in()):
            raise InputError(
                f"{self.path} decompresses to more than {MOST_TIMES} times its size, which no log does; decompress it"
                " yourself if you trust it."
            )
        return text


def as_written(
    label: str, batches: Iterable[pa.RecordBatch], ids: Collection[str], notes: list[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of text with the ids as they were before they went into a CSV file; `notes` gets what was removed."""
    before, marked = 0, set[str]()  # rows, and the columns in which something was removed
    for batch in batches:
        for name in ids:
            texts = batch.column(name)
            if pc.any(nul := pc.match_substring(texts, "\0")).as_py():
                place = pc.index(nul, True).as_py()
                bad, row = shown(texts[place].as_py()), before + place + 1
                raise InputError(f"{label}: column '{name}' has a NUL byte in {bad}, row {row:,}; {REMOVE_NUL}.")
            quoted = texts.filter(pc.starts_with(texts, "'"))  # usually none
            if len(guarded := quoted.filter(is_guarded(quoted))):
                batch = batch.set_column(batch.schema.get_field_index(name), name, unguarded(texts))
                if name not in marked:
                    marked.add(name)
                    like = f"{label}: the leading ' of ids such as {shown(guarded[0].as_py())} in column '{name}'"
                    notes.append(f"{like} was taken for a spreadsheet's text mark and removed.")
        before += batch.num_rows
        yield batch
