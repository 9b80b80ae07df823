"""Parquet files with the same columns as one table; the partitions of their folder (day=1/…) are columns too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from accord.data.columns import refuse_repeated
from accord.io.parquet import BATCH_ROWS, open_parquet

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class ParquetFiles:
    files: Sequence[Path]
    types: dict[str, pa.DataType]  # by column, those of the first file
    partitions: dict[str, list[str | None]]  # by column, a value for each file
    num_rows: int

    @classmethod
    def open(cls, files: Sequence[Path], folder: Path | None = None) -> ParquetFiles:
        types: dict[str, pa.DataType] = {}
        rows = 0
        for path in files:
            with open_parquet(path) as file:
                refuse_repeated(str(path), file.schema_arrow.names)
                rows += file.metadata.num_rows
                for field in file.schema_arrow:
                    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
                    types.setdefault(field.name, kind)
        keys = [_keys(path.relative_to(folder).parts[:-1]) if folder else {} for path in files]
        names = [name for name in dict.fromkeys(name for key in keys for name in key) if name not in types]
        return cls(files, types, {name: [key.get(name) for key in keys] for name in names}, rows)

    @property
    def names(self) -> list[str]:
        return [*self.types, *self.partitions]

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        values = {name: _typed(self.partitions[name]) for name in names if name in self.partitions}
        for number, path in enumerate(self.files):
            with open_parquet(path) as file:
                present = [name for name in names if name in file.schema_arrow.names]
                for batch in file.iter_batches(BATCH_ROWS, columns=present):
                    batch.validate(full=True)  # Arrow does not check that text is UTF-8
                    columns = []
                    for name in names:
                        if name in present:
                            columns.append(batch.column(name).cast(self.types[name]))
                        elif name in values:
                            columns.append(pa.repeat(values[name][number], batch.num_rows))
                        else:
                            columns.append(pa.nulls(batch.num_rows, self.types[name]))
                    yield pa.record_batch(columns, names)


def _keys(folders: Sequence[str]) -> dict[str, str | None]:
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


def _typed(values: Sequence[str | None]) -> pa.Array:
    texts = pa.array(values, pa.string())
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts
