"""Writing files whole or not at all, and reading them without trusting them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from accord.errors import Argument, InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".part"  # suffix of files that are still being written
MANY_ROWS, MOST_ROWS_A_BYTE = 10**7, 100  # a Parquet file of more rows than both is a bomb
MOST_TIMES, SMALL = 100, 2**26  # what unfolds to more bytes than either, times its size or at all, is a bomb too
MOST_LISTED = 50_000  # columns or row groups of a Parquet file: memory is allocated for as many as it claims
BATCH_ROWS = 2**20  # read at once


def make_folder(folder: Path) -> None:
    """The folder, and those that it lies in; an error names the file that is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists())
        raise InputError(f"{file} is a file, and so {folder} cannot be a folder; give another place.") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that replaces it when the block ends without an error."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        if error.filename is None or error.filename == name:  # a full disk is reported without the name of the file
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before anything else is done: a power failure keeps them."""
    if path.is_dir() and os.name == "nt":  # where folders cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def staged(folder: Path, last: str) -> Iterator[Path]:
    """A temporary folder whose files move into `folder` when the block ends without an error, `last` after the others.

    A folder without `last` is incomplete: it is removed before the first file moves. Each of these steps is on the disk
    before the next begins, so that a power failure too leaves the old files, the new ones, or no `last`.
    """
    make_folder(folder)
    place = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=UNFINISHED))
    try:
        sync(folder.parent)
        yield place
        (folder / last).unlink(missing_ok=True)
        sync(folder)
        for path in sorted(place.iterdir()):
            if path.name != last:
                path.replace(folder / path.name)
        sync(folder)
        (place / last).replace(folder / last)
        sync(folder)
    except OSError as error:
        if error.filename is None:
            error.filename = str(folder)
        elif Path(error.filename).parent == place:
            error.filename = str(folder / Path(error.filename).name)
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def only_writer(folder: Path | None) -> Iterator[None]:
    """Lock a folder against other processes: two trainings would mix their files. Leftovers of killed ones are removed.

    The lock ends with the process, however that ends.
    """
    if folder is None or fcntl is None:
        yield
        return
    make_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder} is being written by another process; wait for it, or give another ", Argument("out"), "."
            ) from None
        except OSError:  # a file system without locks
            pass
        for left in folder.glob(f".*{UNFINISHED}"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(handle)
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def write_json(path: Path, content: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def own_file(path: Path) -> Path:
    """A file of a run folder: it exists, is a regular file, and is not a link out of the folder."""
    if not path.is_file():
        raise InputError(f"{path} is missing, so that its folder is not complete; copy or make the whole folder again.")
    if path.resolve().parent != path.parent.resolve():
        raise InputError(f"{path} is a link that leads out of its folder; put the file itself there.")
    return path


def read_json(path: Path) -> Any:
    try:
        return parsed(own_file(path).read_bytes().decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged ({error}); train again.") from None


def parsed(text: str) -> Any:
    """JSON whose text can be written again: half of a surrogate pair is no character."""
    content = json.loads(text)
    if "\\u" in text:
        json.dumps(content, ensure_ascii=False).encode()
    return content


def check_footer(path: Path, footer: Any) -> None:
    """Refuse a Parquet file that claims more rows than its size can hold, or columns of different lengths."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    check_rows(path, max(footer.num_rows, sum(group.num_rows for group in groups)))
    _probe(path, len(groups))
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    if any(chunk.total_uncompressed_size > max(SMALL, MOST_TIMES * path.stat().st_size) for chunk in chunks):
        raise _unfolds(path)
    flat = [place for place in range(footer.num_columns) if not footer.schema.column(place).max_repetition_level]
    for group in groups:
        if any(group.column(place).num_values != group.num_rows for place in flat):
            raise InputError(f"{path} is damaged (its columns do not have as many rows as it claims); write it again.")
    if footer.num_rows != (held := sum(group.num_rows for group in groups)):
        raise InputError(f"{path} is damaged (it claims {footer.num_rows:,} rows and holds {held:,}); write it again.")


def check_rows(path: Path, rows: int) -> None:
    if rows > MANY_ROWS and rows > MOST_ROWS_A_BYTE * path.stat().st_size:
        raise InputError(f"{path} claims {rows:,} rows in {path.stat().st_size:,} bytes, so it is not read.")


def unfoldable(footer: Any) -> set[str]:
    """The columns of a checked Parquet file that cannot be read as dictionaries: Arrow has no such decoder."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return {chunk.path_in_schema for chunk in chunks if any("DELTA" in kind for kind in chunk.encodings)}


def _unfolds(path: Path) -> InputError:
    return InputError(f"{path} unfolds to more than {MOST_TIMES} times its size, as no log does; write it again.")


class Unfolding:
    """Text that was read as dictionaries made plain, unless that is far more than the files hold."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files, self.size = files, 0
        self.most = max(SMALL, MOST_TIMES * sum(file.stat().st_size for file in files))

    def plain(self, batch: Any, but: Collection[str] = ()) -> Any:
        """A batch or table, with the dictionaries of all columns but some replaced by what they stand for."""
        import pyarrow as pa

        for place, field in enumerate(batch.schema):
            column = batch.column(place)
            if pa.types.is_dictionary(field.type):
                if field.name in but:
                    continue
                self._add(_unfolded_bytes(column))
                field = pa.field(field.name, field.type.value_type, metadata=field.metadata)
                batch = batch.set_column(place, field, column.cast(field.type))
            elif not pa.types.is_primitive(field.type):
                self._add(column.nbytes)
        return batch

    def _add(self, size: int) -> None:
        self.size += size
        if self.size > self.most:
            raise _unfolds(self.files[0] if len(self.files) == 1 else self.files[0].parent)


def _unfolded_bytes(column: Any) -> int:
    """The bytes of text that a column of dictionaries stands for."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if not (pa.types.is_string(part.dictionary.type) or pa.types.is_binary(part.dictionary.type)):
            continue
        lengths = np.asarray(pc.binary_length(part.dictionary).fill_null(0), dtype=np.int64)
        places = np.asarray(part.indices.drop_null())
        size += int(lengths @ np.bincount(places, minlength=len(lengths)))
    return size


def _probe(path: Path, groups: int) -> None:
    """Read a row of every group, so that Arrow refuses a damaged column here: asking for its statistics would crash the
    process."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED) as file:
            for group in range(groups):
                next(file.iter_batches(1, row_groups=[group]), None)
    except UnicodeDecodeError:
        raise misnamed(path) from None


def misnamed(path: Path) -> InputError:
    return InputError(f"{path} is damaged (the name of a column is no UTF-8); write it again.")


def read_table(path: Path) -> Any:
    """A Parquet file of a run folder as an Arrow table."""
    with _parquet(path) as file:
        table = file.read()
        table.validate(full=True)
        return Unfolding([path]).plain(table)


def read_batches(path: Path, needed: set[str]) -> Iterator[Any]:
    """The same, a bounded number of rows at a time; the first batch is empty, so that there is always one."""
    import pyarrow as pa

    with _parquet(path) as file:
        schema = file.schema_arrow
        if missing := sorted(needed - set(schema.names)):
            raise InputError(f"{path} is damaged (it has no column '{missing[0]}'); train again.")
        unfolding = Unfolding([path])
        yield unfolding.plain(pa.RecordBatch.from_pylist([], schema))
        for batch in file.iter_batches(BATCH_ROWS):
            batch.validate(full=True)
            yield unfolding.plain(batch)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """A Parquet file of a run folder, opened; whatever is wrong with it becomes an InputError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own_file(path)
    try:
        file = pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED)
        check_footer(path, file.metadata)
        kept = {field.name for field in file.schema_arrow if pa.types.is_string(field.type)}
        texts = sorted(kept - unfoldable(file.metadata))
        yield pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED, read_dictionary=texts) if texts else file
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError) as error:  # Arrow raises the last two, too
        raise InputError(f"{path} is damaged ({error}); train again.") from None
