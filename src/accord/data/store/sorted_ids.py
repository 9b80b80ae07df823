"""Ids that need not fit into memory: one sorted file per chunk of the log, merged into one sorted list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.csr import IntArray
from accord.data.interactions import IdMap


def write_ids(path: Path, ids: pa.Array, at_once: int) -> None:
    """Write ids to a file that can be read in blocks."""
    batch = pa.record_batch([ids], names=["id"])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        for start in range(0, len(ids), at_once):
            writer.write_batch(batch.slice(start, at_once))


def read_ids(path: Path) -> pa.Array:
    """All ids of a file."""
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    return table.column("id").combine_chunks()


class Step(NamedTuple):
    """The next ids of all files, sorted, each once; and for some files the rows of their next ids."""

    ids: pa.Array
    rows: list[tuple[int, IntArray]]


@dataclass
class _Reader:
    """A sorted file, of which one block is in memory."""

    file: pa.ipc.RecordBatchFileReader
    block: pa.Array | None = None
    next: int = field(default=0)

    def fill(self) -> bool:
        """Whether ids are left in the block, which is read from the file if it is empty."""
        while (self.block is None or not len(self.block)) and self.next < self.file.num_record_batches:
            self.block = self.file.get_batch(self.next).column(0)
            self.next += 1
        return self.block is not None and len(self.block) > 0


def merged(paths: Sequence[Path]) -> Iterator[Step]:
    """Sorted files as one list: no later id can be below the least of the blocks' last ids."""
    readers = [_Reader(pa.ipc.open_file(pa.OSFile(str(path)))) for path in paths]
    done = 0
    while left := [(number, one) for number, one in enumerate(readers) if one.fill()]:
        bound = min(one.block[-1].as_py() for _, one in left if one.block is not None)
        pieces = []
        for number, one in left:
            assert one.block is not None
            size = pc.sum(pc.less_equal(one.block, bound)).as_py()
            if size:
                pieces.append((number, one.block.slice(0, size)))
                one.block = one.block.slice(size)
        known = IdMap.of(*(piece for _, piece in pieces))
        yield Step(known.ids, [(number, known.rows(piece) + done) for number, piece in pieces])
        done += len(known)


def place_of(ids: pa.Array) -> tuple[pa.Array, IntArray]:
    """The distinct ids in sorted order, and the place of each id among them, -1 for null."""
    known = IdMap.of(ids.drop_null())
    return known.ids, np.asarray(known.rows(ids))
