"""Recommendations for all users, streamed into a Parquet file or a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from accord.data.databases import Target
from accord.io.files import replacing
from accord.recommender.recommender import Recommender

GROUP_ROWS = 2**18  # rows that are written at once


def write_lists(
    recommender: Recommender,
    target: Path | Target,
    k: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    barred: Tensor | None = None,
    if_exists: str = "fail",
) -> int:
    """Write the lists of all users to a Parquet file or a database table, completely or not at all.
    `barred` [I] marks items to leave out. Returns the number of users."""
    users = recommender.users.ids

    def groups() -> Iterator[pa.Table]:
        """Lists in tables of about GROUP_ROWS rows; the first is empty, for its schema."""
        blocks, done = recommender.lists_in_blocks(users, k, barred=barred), 0
        waiting = [recommender.with_titles(next(blocks))]
        yield waiting[0]
        for block in blocks:
            waiting.append(recommender.with_titles(block))
            done += pc.sum(pc.equal(block.column("rank"), 1)).as_py() or 0
            if sum(map(len, waiting)) >= GROUP_ROWS:
                yield pa.concat_tables(waiting)
                waiting = waiting[:1]
                on_progress(done, len(users))
        yield pa.concat_tables(waiting)

    tables = groups()
    schema = next(tables).schema
    if isinstance(target, Target):
        target.write(schema, (batch for table in tables for batch in table.to_batches()), if_exists)
    else:
        with replacing(target) as temporary, pq.ParquetWriter(temporary, schema) as writer:
            for table in tables:
                writer.write_table(table)
    return len(users)
