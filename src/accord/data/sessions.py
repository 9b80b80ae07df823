"""Sessions from times: what a user does without a long pause."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.interactions import IdMap, Interactions
from accord.data.sorting import lexsort
from accord.data.times import units
from accord.errors import Argument, ColumnArgument, InputError, Note, shown

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(gap: str) -> float:
    """`30m` in seconds."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", gap.strip())
    if match is None or not float(match[1]):
        raise InputError(Argument("session_gap"), f" is {shown(gap)}; write it as 30m, 2h or 1d.")
    return float(match[1]) * SECONDS[match[2]]


def in_sessions(source: str, rows: Interactions, gap: str) -> tuple[Interactions, str]:
    """Rows with sessions in place of users, ann/1, ann/2, …: a pause of over `gap` begins another; and what was made.
    Times that are numbers since 1970 are of the unit that their size says, all others are seconds."""
    if not rows.has_time:
        without = f"{source}: sessions are made from times, and the log has none; give "
        raise InputError(without, ColumnArgument("time"), " or leave out ", Argument("session_gap"), ".")
    users, when = rows.column("user"), rows.column("time")
    (unit, *others), order = sorted(units(when)), lexsort([when, users])
    pause = seconds_of(gap) * (1 if others else 1000 ** max(0, unit))
    begins = np.append(True, (np.diff(users[order]) != 0) | (np.diff(when[order]) > pause))
    whose = users[order][begins]
    count = np.arange(len(whose)) - np.searchsorted(whose, whose) + 1
    names = pc.binary_join_element_wise(rows.user_ids.take(whose).cast(pa.string()), pa.array(count.astype(str)), "/")
    ids, sessions = IdMap.of(names), np.empty(len(rows), dtype=np.int32)
    sessions[order] = ids.rows(names)[begins.cumsum() - 1]
    single = int((np.bincount(sessions) == 1).sum())
    if single == len(ids):
        alone = (
            f"{source}: each of the {single:,} sessions has one interaction only, so there is no order; give a longer "
        )
        raise InputError(alone, Argument("session_gap"), f" than {gap}, or leave it out.")
    note = f"{source}: {len(ids):,} sessions of {len(np.unique(whose)):,} users, {single:,} with one interaction."
    table = rows.rows.set_column(0, "user", pa.array(sessions))
    return Interactions(table, (ids, rows.item_ids)), Note(note)
