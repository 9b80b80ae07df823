"""The log without its noise, or with weights, for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from accord.auditing.interaction_log import Log
from accord.data.interactions import Interactions
from accord.data.split import pairs
from accord.errors import Argument, InputError
from accord.io.csv_safety import csv_writer, guarded_table, has_returns
from accord.io.files import replacing

ROWS_AT_ONCE = 100_000
SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": None}


@dataclass(frozen=True)
class Cleaned:
    rows: int  # written
    dropped: int
    users_lost: int  # users without any row left


def check_target(path: Path, drop_below: float | None, weights: bool) -> None:
    """Raise InputError where the clean log could not be written, before the audit begins."""
    if path.suffix not in SUFFIXES:
        raise InputError(Argument("write_clean", path), f": its name must end in {', '.join(SUFFIXES)}.")
    if weights and drop_below is not None:
        raise InputError("give ", Argument("drop_below"), " or ", Argument("weights", True), ", not both.")
    if drop_below is not None and not 0 < drop_below <= 1:
        raise InputError(Argument("drop_below", drop_below), ": give a probability above 0 and up to 1.")


def write_clean(path: Path, log: Log, judged: pa.Table, drop_below: float = 0.5, weights: bool = False) -> Cleaned:
    """Write the rows of the log with all their columns: those whose p_real is at least `drop_below`, or all, with
    p_real as a `weight`. `judged`: the audit's table of interactions."""
    check_target(path, None if weights else drop_below, weights)
    p_real = _p_real_of_rows(log, judged)
    table = log.columns
    keep = np.ones(len(p_real), dtype=bool) if weights else p_real >= drop_below
    if not keep.any():
        raise InputError(Argument("drop_below", drop_below), " leaves no interactions; give a smaller one.")
    if weights:
        name = "weight"
        while name in table.column_names:
            name = f"accord_{name}"
        table = table.append_column(name, pa.array(p_real))
    users = log.data.users.rows(log.raw.users)
    lost = len(np.setdiff1d(users, users[keep]))
    write_table(path, table.filter(pa.array(keep)))
    return Cleaned(int(keep.sum()), int((~keep).sum()), lost)


def _p_real_of_rows(log: Log, judged: pa.Table) -> npt.NDArray[np.float64]:
    """p_real of every row of the log, repeated pairs too."""
    if missing := {"user", "item", "p_real"} - {*judged.column_names}:
        raise InputError(f"the audit's interactions.parquet has no column '{min(missing)}'; audit this log first.")
    keys = pairs(log.data, Interactions(judged.select(["user", "item"])))
    order = np.argsort(keys)
    rows = pairs(log.data, log.raw)
    place = np.minimum(np.searchsorted(keys[order], rows), len(keys) - 1)
    if (keys[order][place] != rows).any():
        raise InputError("the audit is of another log: it lacks some interactions of this one; audit this log first.")
    p_real: npt.NDArray[np.float64] = judged.column("p_real").to_numpy()[order][place]
    return p_real


def write_table(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        delimiter = SUFFIXES[path.suffix]
        if delimiter is None:
            pq.write_table(table, temporary)
            return
        nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
        if nested:
            raise InputError(
                f"{path}: column '{nested[0]}' is nested, which a text file cannot hold; write a .parquet file."
            )
        table = guarded_table(table)
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv_writer(file, delimiter, has_returns(table))
            writer.writerow(table.column_names)
            for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
                writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
