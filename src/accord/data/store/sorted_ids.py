"""Ids that need not fit into memory: sorted runs of them, one a chunk of the log, merged into one sorted list."""

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


def write_run(path: Path, ids: pa.Array, at_once: int) -> None:
    """Ids as a file that can be read a block at a time."""
    batch = pa.record_batch([ids], names=["id"])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        for start in range(0, len(ids), at_once):
            writer.write_batch(batch.slice(start, at_once))


def read_run(path: Path) -> pa.Array:
    """All ids of a file."""
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    return table.column("id").combine_chunks()


class Step(NamedTuple):
    """The next ids of all runs, sorted and each once; and of some runs the rows of their next ids."""

    ids: pa.Array
    rows: list[tuple[int, IntArray]]


@dataclass
class _Run:
    """A sorted run, of which a block is in memory."""

    reader: pa.ipc.RecordBatchFileReader
    block: pa.Array | None = None
    next: int = field(default=0)

    def fill(self) -> bool:
        """Whether there is something in the block, from the file if need be."""
        while (self.block is None or not len(self.block)) and self.next < self.reader.num_record_batches:
            self.block = self.reader.get_batch(self.next).column(0)
            self.next += 1
        return self.block is not None and len(self.block) > 0


def merged(paths: Sequence[Path]) -> Iterator[Step]:
    """Sorted runs as one: what is not above the least of the blocks' last ids comes after nothing else any more."""
    runs = [_Run(pa.ipc.open_file(pa.OSFile(str(path)))) for path in paths]
    done = 0
    while left := [(number, run) for number, run in enumerate(runs) if run.fill()]:
        bound = min(run.block[-1].as_py() for _, run in left if run.block is not None)
        pieces = []
        for number, run in left:
            assert run.block is not None
            size = pc.sum(pc.less_equal(run.block, bound)).as_py()
            if size:
                pieces.append((number, run.block.slice(0, size)))
                run.block = run.block.slice(size)
        known = IdMap.of(*(piece for _, piece in pieces))
        yield Step(known.ids, [(number, known.rows(piece) + done) for number, piece in pieces])
        done += len(known)


def place_of(ids: pa.Array) -> tuple[pa.Array, IntArray]:
    """Ids sorted and each once, and the place of each among them, -1 for null."""
    known = IdMap.of(ids.drop_null())
    return known.ids, np.asarray(known.rows(ids))
