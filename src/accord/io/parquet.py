"""Parquet files, read without trusting them: what they claim and what they decompress to is bounded by their size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.errors import InputError
from accord.io.files import own_file

MANY_ROWS, MOST_ROWS_A_BYTE = 10**7, 100  # a file of more rows than both is a bomb
MOST_TIMES, SMALL = 100, 2**26  # so is what decompresses to more bytes than either, times its size or at all
MOST_LISTED = 50_000  # columns or row groups: memory is allocated for as many as a file claims
BATCH_ROWS, FEW_ROWS = 2**20, 2**7  # read at once; few of text that Arrow cannot read as dictionaries


class DecompressionGuard:
    """Decodes text that was read as dictionaries, unless that is far more than the files hold."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files, self.size = files, 0
        self.most = max(SMALL, MOST_TIMES * sum(file.stat().st_size for file in files))

    def decoded(self, batch: Any, but: Collection[str] = ()) -> Any:
        """A batch or table with all dictionaries decoded, but for those of some columns."""
        import pyarrow as pa

        for place, field in enumerate(batch.schema):
            column = batch.column(place)
            if pa.types.is_dictionary(field.type):
                if field.name in but:
                    continue
                self._add(_decoded_bytes(column))
                field = pa.field(field.name, field.type.value_type, metadata=field.metadata)
                batch = batch.set_column(place, field, column.cast(field.type))
            elif not pa.types.is_primitive(field.type):
                self._add(column.nbytes)
        return batch

    def _add(self, size: int) -> None:
        self.size += size
        if self.size > self.most:
            raise _too_large(self.files[0] if len(self.files) == 1 else self.files[0].parent)


def _decoded_bytes(column: Any) -> int:
    """The bytes of text that a column of dictionaries stands for."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    texts = [part for part in parts if _is_text(part.dictionary.type)]
    return sum(pc.sum(pc.binary_length(one.dictionary).take(one.indices)).as_py() or 0 for one in texts)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _too_large(path: Path) -> InputError:
    return InputError(
        f"{path} decompresses to more than {MOST_TIMES} times its size, which no log does; write it again."
    )


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A checked ParquetFile whose text comes as dictionaries, where Arrow can do that."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED) as file:
            check_footer(path, file)
            texts = {field.name for field in file.schema_arrow if _is_text(field.type)} - delta_columns(file)
    except UnicodeDecodeError:
        raise InputError(f"{path} is damaged (the name of a column is not UTF-8); write it again.") from None
    with pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED, read_dictionary=sorted(texts)) as file:
        yield file


def batch_rows(file: Any, names: Collection[str]) -> int:
    """How many rows of these columns to read at once."""
    return FEW_ROWS if delta_columns(file) & set(names) else BATCH_ROWS


def check_footer(path: Path, file: Any) -> None:
    """Refuse a file that claims more rows than its size can hold, or columns of different lengths."""
    footer, size = file.metadata, path.stat().st_size
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    held = sum(group.num_rows for group in groups)
    if (rows := max(footer.num_rows, held)) > MANY_ROWS and rows > MOST_ROWS_A_BYTE * size:
        raise InputError(f"{path} claims {rows:,} rows in {size:,} bytes, so it is not read.")
    for group in range(len(groups)):  # so that Arrow refuses a damaged column here: its statistics would crash
        next(file.iter_batches(1, row_groups=[group]), None)
    if any(chunk.total_uncompressed_size > max(SMALL, MOST_TIMES * size) for chunk in _chunks(footer)):
        raise _too_large(path)
    flat = [place for place in range(footer.num_columns) if not footer.schema.column(place).max_repetition_level]
    if any(group.column(place).num_values != group.num_rows for group in groups for place in flat):
        raise InputError(f"{path} is damaged (its columns do not have as many rows as it claims); write it again.")
    if footer.num_rows != held:
        raise InputError(f"{path} is damaged (it claims {footer.num_rows:,} rows and holds {held:,}); write it again.")


def _chunks(footer: Any) -> Iterator[Any]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield from (group.column(place) for place in range(group.num_columns))


def delta_columns(file: Any) -> set[str]:
    """The columns of a checked file that cannot be read as dictionaries: Arrow has no such decoder."""
    return {chunk.path_in_schema for chunk in _chunks(file.metadata) if any("DELTA" in one for one in chunk.encodings)}


def read_table(path: Path) -> Any:
    """A Parquet file of a run folder as an Arrow table."""
    with _run_file(path) as file:
        table = file.read()
        table.validate(full=True)
        return DecompressionGuard([path]).decoded(table)


def read_batches(path: Path, needed: set[str]) -> Iterator[Any]:
    """The same, a bounded number of rows at a time; the first batch is empty, so that there is always one."""
    import pyarrow as pa

    with _run_file(path) as file:
        schema = file.schema_arrow
        if missing := sorted(needed - set(schema.names)):
            raise InputError(f"{path} is damaged (it has no column '{missing[0]}'); train again.")
        guard = DecompressionGuard([path])
        yield guard.decoded(pa.RecordBatch.from_pylist([], schema))
        for batch in file.iter_batches(BATCH_ROWS):
            batch.validate(full=True)
            yield guard.decoded(batch)


@contextmanager
def _run_file(path: Path) -> Iterator[Any]:
    """A Parquet file of a run folder; whatever is wrong with it becomes an InputError."""
    import pyarrow as pa

    own_file(path)
    try:
        with open_parquet(path) as file:
            yield file
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError) as error:  # Arrow raises the last two, too
        raise InputError(f"{path} is damaged ({error}); train again.") from None
