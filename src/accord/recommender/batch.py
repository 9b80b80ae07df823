"""Recommendations for all users, or for one of several parts of them: streamed into a Parquet file or a database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from accord.data.databases import Target
from accord.errors import InputError
from accord.evaluation.ranking import Rank
from accord.io.files import replacing
from accord.recommender.recommender import Recommender

GROUP_ROWS = 2**18  # rows of the file that are written at once


@dataclass(frozen=True)
class Part:
    """Part `number` of `of`, counted from 1: parts of consecutive users, which together are all users."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Part:
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"--part '{text}': write it as 2/8, the second of eight parts.")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of_rank(cls) -> Part | None:
        """The part of this process, where torchrun started several."""
        if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return None
        return cls(int(os.environ["RANK"]) + 1, int(os.environ["WORLD_SIZE"]))

    def bounds(self, size: int) -> tuple[int, int]:
        return (self.number - 1) * size // self.of, self.number * size // self.of

    def file_in(self, folder: Path) -> Path:
        if folder.is_file():
            raise InputError(f"{folder} is a file, and several ranks write a folder of parts; give another --out.")
        return folder / f"part-{self.number:05}-of-{self.of:05}.parquet"


def write_lists(
    recommender: Recommender,
    path: Path,
    k: int,
    part: Part,
    rank: Rank | None = None,
    watch: Callable[[int, int], None] | None = None,
    barred: Tensor | None = None,
) -> int:
    """The lists of a part of all users as a Parquet file that is whole or not there; `barred` [I] are left out.
    How many users that is."""
    users = _users(recommender, part)
    tables = _tables(recommender, users, k, rank, watch, barred)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, next(tables).schema) as writer:
        for table in tables:
            writer.write_table(table)
    return len(users)


def send_lists(
    recommender: Recommender,
    target: Target,
    k: int,
    part: Part,
    rank: Rank | None = None,
    watch: Callable[[int, int], None] | None = None,
    if_exists: str = "fail",
    barred: Tensor | None = None,
) -> int:
    """The same as a table of a database, written in one transaction. How many users that is."""
    users = _users(recommender, part)
    tables = _tables(recommender, users, k, rank, watch, barred)
    schema = next(tables).schema
    target.write(schema, (batch for table in tables for batch in table.to_batches()), if_exists)
    return len(users)


def _users(recommender: Recommender, part: Part) -> pa.Array:
    first, last = part.bounds(len(recommender.users))
    return recommender.users.ids.slice(first, last - first)


def _tables(
    recommender: Recommender,
    users: pa.Array,
    k: int,
    rank: Rank | None,
    watch: Callable[[int, int], None] | None,
    barred: Tensor | None,
) -> Iterator[pa.Table]:
    """Lists in tables of about as many rows as are written at once; the first is empty, for its schema."""
    blocks, done = recommender.lists_in_blocks(users, k, barred=barred, rank=rank), 0
    waiting = [recommender.with_titles(next(blocks))]
    yield waiting[0]
    for block in blocks:
        waiting.append(recommender.with_titles(block))
        done += _users_of(block)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = waiting[:1]
            if watch is not None:
                watch(done, len(users))
    yield pa.concat_tables(waiting)


def _users_of(block: pa.Table) -> int:
    return int(pa.compute.sum(pa.compute.equal(block.column("rank"), 1)).as_py() or 0)
