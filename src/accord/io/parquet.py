"""Parquet files, read without trusting what they claim: it is bounded by their size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.errors import InputError
from accord.io.files import file_inside

MANY_ROWS, MOST_ROWS_A_BYTE = 10**7, 100  # a file of more rows than both is a bomb
MOST_TIMES, SMALL = 100, 2**26  # so is a column of more bytes than either, times the size of the file or at all
MOST_LISTED = 50_000  # columns or row groups: memory is allocated for as many as a file claims
BATCH_ROWS = 2**20  # read at once


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, thrift_container_size_limit=MOST_LISTED)
        check_footer(path, file)
        all(field.name for field in file.schema_arrow)  # which Arrow decodes only now
    except UnicodeDecodeError:
        raise InputError(f"{path} is damaged (the name of a column is not UTF-8); write it again.") from None
    with file:
        yield file


def check_footer(path: Path, file: Any) -> None:
    """Refuse a file that claims more rows than its size can hold, or columns of different lengths."""
    footer, size = file.metadata, path.stat().st_size
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    held = sum(group.num_rows for group in groups)
    if (rows := max(footer.num_rows, held)) > MANY_ROWS and rows > MOST_ROWS_A_BYTE * size:
        raise InputError(f"{path} claims {rows:,} rows in {size:,} bytes, so it is not read.")
    for group in range(len(groups)):  # so that Arrow refuses a damaged column here: its statistics would crash
        next(file.iter_batches(1, row_groups=[group]), None)
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    if any(column.total_uncompressed_size > max(SMALL, MOST_TIMES * size) for column in columns):
        raise InputError(
            f"{path} decompresses to more than {MOST_TIMES} times its size, which no log does; write it again."
        )
    flat = [place for place in range(footer.num_columns) if not footer.schema.column(place).max_repetition_level]
    if any(group.column(place).num_values != group.num_rows for group in groups for place in flat):
        raise InputError(f"{path} is damaged (its columns do not have as many rows as it claims); write it again.")
    if footer.num_rows != held:
        raise InputError(f"{path} is damaged (it claims {footer.num_rows:,} rows and holds {held:,}); write it again.")


def read_table(path: Path) -> Any:
    with _run_file(path) as file:
        table = file.read()
        return _checked(table)


def read_batches(path: Path, needed: set[str]) -> Iterator[Any]:
    """The same, a bounded number of rows at a time; the first batch is empty, so that there is always one."""
    import pyarrow as pa

    with _run_file(path) as file:
        schema = file.schema_arrow
        if missing := sorted(needed - set(schema.names)):
            raise InputError(f"{path} is damaged (it has no column '{missing[0]}'); train again.")
        yield _checked(pa.RecordBatch.from_pylist([], schema))
        yield from map(_checked, file.iter_batches(BATCH_ROWS))


def _checked(batch: Any) -> Any:
    """A batch or table whose text is UTF-8, which Arrow does not check by itself, and is not in dictionaries."""
    import pyarrow as pa

    batch.validate(full=True)
    for place, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type):
            plain = field.with_type(field.type.value_type)
            batch = batch.set_column(place, plain, batch.column(place).cast(plain.type))
    return batch


@contextmanager
def _run_file(path: Path) -> Iterator[Any]:
    """A Parquet file of a run folder; whatever is wrong with it becomes an InputError."""
    import pyarrow as pa

    file_inside(path)
    try:
        with open_parquet(path) as file:
            yield file
    except (pa.ArrowException, OSError, RuntimeError, UnicodeDecodeError) as error:  # Arrow raises the last two, too
        raise InputError(f"{path} is damaged ({error}); train again.") from None
