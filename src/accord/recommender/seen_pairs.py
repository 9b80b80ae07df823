"""The pairs that users have, in a run folder: of training, of validation and the rest of the log, none of which is
recommended. Written and read a limited number of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from accord.data.columns import SAVED
from accord.data.interactions import IdMap, Interactions
from accord.errors import InputError
from accord.io.parquet import read_batches

ROWS_AT_ONCE = 2**22
PARTS = ("train", "valid", "rest")


def write_seen(path: Path, parts: Mapping[str, Interactions], users: IdMap, items: IdMap) -> None:
    """Write pairs under the caller's ids, each with the part that it belongs to."""
    types = {"user": users.ids.type, "item": items.ids.type} | dict.fromkeys(SAVED, pa.float64())
    times = {part.rows.schema.field("time").type for part in parts.values() if "time" in part.names}
    types["time"] = pa.int64() if times == {pa.int64()} else pa.float64()
    train = parts["train"].rows.schema
    fields = [train.field(name).with_type(kind) for name, kind in types.items() if name in train.names]
    schema = pa.schema([*fields, ("part", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(path, schema) as writer:
        for part in (name for name in PARTS if name in parts):
            for start in range(0, len(parts[part]), ROWS_AT_ONCE):
                rows = parts[part].slice(start, ROWS_AT_ONCE).table
                columns = [
                    rows.column(field.name) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
                    for field in fields
                ]
                marks = pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), pa.array([part]))
                writer.write_table(pa.table([*columns, marks], schema.names).cast(schema, safe=False))


def read_seen(path: Path, users: IdMap, items: IdMap) -> dict[str, Interactions]:
    """Read the pairs of each part. Ids become rows at once, of four bytes each."""
    batches: dict[str, list[pa.RecordBatch]] = {part: [] for part in PARTS}
    for batch in read_batches(path, {"user", "item", "part"}):
        rows = batch.select([name for name in ("user", "item", *SAVED) if name in batch.schema.names])
        for place, ids in enumerate((users, items)):
            column = ids.rows(rows.column(place))
            if len(column) and column.min() < 0:
                raise InputError(f"{path} is damaged (it has ids that the run has no rows for); train again.")
            rows = rows.set_column(place, rows.schema.names[place], pa.array(column, pa.int32()))
        part_names = batch.column("part").cast(pa.string())
        for part, selected in batches.items():
            selected.append(rows.filter(pc.equal(part_names, part)))
    return {
        part: Interactions(pa.Table.from_batches(rows).combine_chunks(), (users, items))
        for part, rows in batches.items()
    }
