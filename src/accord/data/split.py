"""Interactions -> Dataset: random, by the time of each user or of all; and the rule that makes the test clean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data.csr import PAIRS_AT_ONCE, IntArray, pair_keys
from accord.data.interactions import Dataset, Interactions, mark
from accord.data.rules import CleanRule
from accord.data.sorting import Order, distinct, lexsort
from accord.data.times import times
from accord.errors import Argument, ColumnArgument, InputError, shown, unknown

KINDS = ("auto", "random", "chronological", "leave-last-out", "global-time")
DATES = 631_152_000, 4_102_444_800  # seconds since 1970 of 1990 and 2100: what lies between is taken for a date
ENOUGH = 0.5  # of the interactions after a moment are of users with some before: the rest can judge no recommender
USE_RANDOM = Argument("split", "random")
FEW = 10  # interactions of which no split leaves anything for each part
TRAIN, VALID, TEST = 0, 1, 2
Parts = npt.NDArray[np.int8]  # the part of each row
Ratios = tuple[float, float, float]
Cut = Callable[[Interactions, str, Ratios, int], Sequence[Interactions]]


def split(
    interactions: Interactions,
    kind: str = "auto",
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    clean: CleanRule | str | None = None,
    seed: int = 0,
    name: str = "data",
    notes: Sequence[str] = (),
    cut: Cut | None = None,
) -> Dataset:
    """Train, valid and test. The same seed gives the same parts whatever the order of the rows.

    A share of 0 leaves valid or test empty. `global-time:2021-06-01` puts everything from that moment on into the test.
    With a clean rule the test has only what meets it (`test_noisy` is all of it), and `valid_clean` likewise.
    `cut` makes the three parts if that is not to be done in memory.
    """
    moment(kind)
    ratios = _checked(ratios)
    if seed < 0:
        raise InputError(f"the seed of the split is {seed}; give 0 or more.")
    rule = CleanRule.parse(clean) if isinstance(clean, str) else clean
    rows = interactions.merged(ordered=True)
    if kind == "auto":
        kind, why = _usual(rows, ratios)
        notes = [*notes, f"split {kind} ({why})."]
    if kind != "random" and not interactions.has_time:
        raise InputError(
            f"{name}: split {kind} needs a time column; give ", ColumnArgument("time"), " or use ", USE_RANDOM, "."
        )
    if kind != "random" and len(rows) and rows.column("time").min() == rows.column("time").max():
        if kind.startswith("global-time") and ratios[0] < 1:
            raise InputError(f"{name}: all times are the same, so that no moment parts them; use ", USE_RANDOM, ".")
        notes = [*notes, "all times are the same: what comes last is drawn at random."]
    train, valid, test = parts = (cut or _cut)(rows, kind, ratios, seed)
    for label, piece, share in zip(("train", "valid", "test"), parts, ratios, strict=True):
        if not len(piece) and (share or kind == "leave-last-out"):
            raise _empty(name, kind, label, len(rows))
    notes = [*notes, *_part_notes(kind, valid, test)]
    valid_clean = test_noisy = None
    if rule is not None and (len(valid) or len(test)):
        test_noisy, test = test, test.filter(rule.mask(test))
        clean_rows = rule.mask(valid)
        valid_clean = valid.filter(clean_rows) if clean_rows.any() else None
        if not len(test) and len(test_noisy):
            raise InputError(f"{name}: no test interaction meets the clean rule {shown(rule.text)}; change the rule.")
        notes = [*notes, f"clean rule '{rule.text}' keeps {len(test)} of {len(test_noisy)} test interactions."]
    dataset = Dataset.of(name, train, valid, test, valid_clean, test_noisy, notes)
    return replace(dataset, notes=(*dataset.notes, *cold_notes(dataset)))


def _usual(rows: Interactions, ratios: Ratios) -> tuple[str, str]:
    """The split of a log for which none is asked, and why."""
    if not rows.has_time:
        return "random", "no column was read as times"
    when = rows.column("time")
    if not len(when) or when.min() == when.max():
        return "random", "all times are the same"
    part, users = _global(when, ratios, None), rows.column("user")
    known = np.zeros(int(users.max()) + 1, dtype=bool)
    known[users[part == TRAIN]] = True
    later = [float(known[users[part == one]].mean()) for one in (VALID, TEST) if (part == one).any()]
    if len(later) == np.count_nonzero(ratios[1:]) and min(later, default=0.0) >= ENOUGH:
        return "global-time", f"the data has times, and {min(later):.0%} of later interactions are of users seen before"
    return "chronological", "the data has times"


def by_user(dataset: Dataset, clean: str | None, seed: int) -> Dataset | None:
    """A log that was split at a moment, split by the time of each user instead; None where that leaves a part empty.

    A log that lies in a store is not copied for that."""
    if dataset.train.stored is not None or not len(dataset.test):
        return None
    with suppress(InputError):
        again = split(dataset.everything().train, "chronological", clean=clean, seed=seed, name=dataset.name)
        return replace(again, item_info=dataset.item_info, outside=dataset.outside)
    return None


def moment(kind: str) -> float | None:
    """Where the test of a split begins, in seconds since 1970, if `global-time` says so; InputError for no split."""
    name, colon, text = kind.partition(":")
    if name not in KINDS or (colon and name != "global-time"):
        raise unknown("split", kind, KINDS)
    if not colon:
        return None
    try:
        seconds: float = times("the split", "moment", pa.array([text]))[0][0].as_py()
    except InputError:
        raise InputError(f"split {shown(kind)}: give a moment like global-time:2021-06-01.") from None
    return seconds


def _empty(name: str, kind: str, label: str, rows: int) -> InputError:
    few = f"{name}: split {kind} leaves the {label} part of {rows} interactions empty"
    if kind == "random" or rows < FEW:
        everything = Argument("ratios", (1, 0, 0))
        return InputError(f"{few}; give more data, or ", everything, " to train on everything and evaluate nothing.")
    if kind.startswith("global-time"):
        return InputError(f"{few}; give another moment or other ", Argument("ratios"), ".")
    return InputError(
        f"{few}: users have too few interactions each; use ", USE_RANDOM, " or global-time, or other ratios."
    )


def _part_notes(kind: str, valid: Interactions, test: Interactions) -> list[str]:
    """Notes on parts that are left out, and on the moments of a split by time."""
    parts = {"validation": valid, "test": test}
    empty = [part for part, rows in parts.items() if not len(rows)]
    instead = "nothing is evaluated" if "test" in empty else "training cannot stop early"
    notes = [f"the split has no {' and no '.join(empty)}: {instead}."] if empty else []
    starts = [f"{part} from {_first_time(rows)}" for part, rows in parts.items() if len(rows)]
    if kind.startswith("global-time") and starts:
        notes.append(f"split by time: {', '.join(starts)} on; training has what came before.")
    return notes


def _first_time(rows: Interactions) -> str:
    first = float(rows.column("time").min()) if rows.has_time else 0.0
    if not DATES[0] < first < DATES[1]:
        return f"{first:g}"
    return datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _checked(ratios: Sequence[float]) -> Ratios:
    shares = len(ratios) == 3 and all(isinstance(ratio, Real) and ratio >= 0 for ratio in ratios) and ratios[0] > 0
    if not shares or not math.isclose(sum(ratios), 1, abs_tol=1e-6):
        given = ratios if isinstance(ratios, str) else ", ".join(map(str, ratios))
        raise InputError(
            f"split ratios ({given}) must be three shares for train, valid and test that sum to 1, like 0.8, 0.1, 0.1;"
            " only valid and test may be 0."
        )
    train, valid, test = ratios
    return train, valid, test


def _nearest(sizes: npt.NDArray[Any] | int, ratio: float) -> IntArray:
    return np.floor(np.asarray(sizes) * ratio + 0.5 + 1e-9).astype(np.int64)  # a half always rounds up


def _cut(rows: Interactions, kind: str, ratios: Ratios, seed: int) -> Sequence[Interactions]:
    part = assigned(rows, kind, ratios, seed)
    return [rows.filter(part == wanted) for wanted in (TRAIN, VALID, TEST)]


def assigned(rows: Interactions, kind: str, ratios: Ratios, seed: int) -> Parts:
    """The part of each row; rows are sorted by user and item."""
    rng = np.random.default_rng(seed)
    if kind == "random":
        return _random(len(rows), ratios, rng)
    if kind.startswith("global-time"):
        return _global(rows.column("time"), ratios, moment(kind))
    return _by_time(rows, kind, ratios, rng)


def _random(size: int, ratios: Ratios, rng: np.random.Generator) -> Parts:
    valid, test = int(_nearest(size, ratios[1])), int(_nearest(size, ratios[2]))
    part = np.full(size, TRAIN, dtype=np.int8)
    order = _permutation(size, rng)
    part[order[:test]] = TEST
    part[order[test : test + valid]] = VALID
    return part


def _permutation(size: int, rng: np.random.Generator) -> Order:
    """rng.permutation(size), in half the memory where it fits."""
    rows = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64)
    rng.shuffle(rows)
    return rows


def _global(when: npt.NDArray[Any], ratios: Ratios, test_from: float | None) -> Parts:
    """Everything before a moment against what came after; equal times stay together.

    A moment that is given leaves the shares of train and valid to what came before it."""
    ordered = np.sort(when)
    before, held = len(ordered), int(_nearest(len(ordered), ratios[1]))
    if test_from is not None:
        before = int(np.searchsorted(ordered, test_from))
        held = int(_nearest(before, ratios[1] / (ratios[0] + ratios[1])))
    elif ratios[2]:
        test_from = ordered[-max(1, int(_nearest(before, ratios[2])))]
        before = int(np.searchsorted(ordered, test_from))
    part = np.full(len(when), TRAIN, dtype=np.int8)
    if ratios[1] and before:
        part[when >= ordered[max(0, before - max(1, held))]] = VALID
    if test_from is not None:
        part[when >= test_from] = TEST
    return part


def _by_time(rows: Interactions, kind: str, ratios: Ratios, rng: np.random.Generator) -> Parts:
    """The last interactions of each user go to test, those before to valid."""
    users, times = rows.column("user"), rows.column("time")
    # equal times in seeded random order: any order of the ids would favour some items
    keys = [_permutation(len(rows), rng), times, users]
    ptr = np.searchsorted(users, np.arange(int(users[-1]) + 2, dtype=users.dtype))
    counts = np.diff(ptr)
    if kind == "leave-last-out":
        test = (counts >= 3).astype(np.int64)
        valid = test
    else:
        test = np.minimum(_nearest(counts, ratios[2]), np.maximum(counts - 1, 0))
        valid = np.minimum(_nearest(counts, ratios[1]), np.maximum(counts - 1 - test, 0))
    sizes = np.stack([counts - valid - test, valid, test], axis=1)  # of each user: train, valid, test, in this order
    part = np.empty(len(rows), dtype=np.int8)
    marks = np.searchsorted(ptr, np.arange(0, len(rows), PAIRS_AT_ONCE))
    for first, last in pairwise(distinct(np.append(marks, len(counts)))):  # whole users, a bounded number of rows
        block = slice(ptr[first], ptr[last])
        of_users = np.tile(np.array([TRAIN, VALID, TEST], dtype=np.int8), last - first)
        part[block][lexsort([key[block] for key in keys])] = np.repeat(of_users, sizes[first:last].ravel())
    return part


def pairs(dataset: Dataset, part: Interactions) -> IntArray:
    """One integer per pair, comparable between the parts of a dataset."""
    return pair_keys(*dataset.rows(part), len(dataset.items))


def cold_notes(dataset: Dataset) -> list[str]:
    """Notes on test users and items that training has never seen; InputError if it has seen none of the items."""
    notes = []
    parts = dataset.rows(dataset.train), dataset.rows(dataset.test)
    for what, ids, train, test in zip(("users", "items"), (dataset.users, dataset.items), *parts, strict=True):
        trained, cold_ids = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=bool)
        mark(trained, train)
        cold = ~trained[test]
        if what == "items" and len(test) and cold.all():
            raise InputError(
                f"{dataset.name}: no item of the test occurs in training; check that both use the same item ids."
            )
        if cold.any():
            cold_ids[test[cold]] = True
            notes.append(
                f"{int(cold_ids.sum())} test {what} ({int(cold.sum())} of {len(test)} test interactions)"
                " do not occur in training."
            )
    return notes
