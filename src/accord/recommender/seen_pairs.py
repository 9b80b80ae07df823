"""The pairs that users have, in a run folder: of training, of validation and the rest of the log, which is never
recommended either. Written and read a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from accord.data.interactions import IdMap, Interactions
from accord.errors import InputError
from accord.io.files import read_batches

ROWS_AT_ONCE = 2**22
PARTS = ("train", "valid", "rest")
KEPT = ("value", "weight", "time")  # columns besides the ids


def write_seen(path: Path, parts: Mapping[str, Interactions], users: IdMap, items: IdMap) -> None:
    """Pairs under the caller's ids, each with the part that it is of.

    The values too, which training does not use, for whoever looks at the run afterwards; and the weights and times,
    which a history is scored with.
    """
    types = {"user": users.ids.type, "item": items.ids.type} | dict.fromkeys(KEPT, pa.float64())
    times = {part.rows.schema.field("time").type for part in parts.values() if "time" in part.names}
    types["time"] = pa.int64() if times == {pa.int64()} else pa.float64()
    known = parts["train"].rows.schema
    fields = [known.field(name).with_type(kind) for name, kind in types.items() if name in known.names]
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
    """The same, ids becoming rows as they come: four bytes each."""
    found: dict[str, list[pa.RecordBatch]] = {part: [] for part in PARTS}
    for batch in read_batches(path, {"user", "item", "part"}):
        rows = batch.select([name for name in ("user", "item", *KEPT) if name in batch.schema.names])
        for place, known in enumerate((users, items)):
            column = known.rows(rows.column(place))
            if len(column) and column.min() < 0:
                raise InputError(f"{path} is damaged (it has ids that the run has no rows for); train again.")
            rows = rows.set_column(place, rows.schema.names[place], pa.array(column, pa.int32()))
        of_part = batch.column("part").cast(pa.string())
        for part, own in found.items():
            own.append(rows.filter(pc.equal(of_part, part)))
    return {
        part: Interactions(pa.Table.from_batches(rows).combine_chunks(), (users, items)) for part, rows in found.items()
    }
