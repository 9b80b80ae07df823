"""The health of a log: what to be careful about, with examples by their ids, and what to do about it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.auditing.interaction_log import PARTS, Log, is_date
from accord.data.csr import IntArray
from accord.data.interactions import IdMap
from accord.data.split import pairs
from accord.errors import shown

Level = Literal["serious", "notice", "fine"]

EXAMPLES = 5
SMALL = 1_000  # interactions: with fewer, the density of percentiles cannot be estimated
FAR_OUT = 3.0  # interquartile ranges above the third quartile, in logarithms
MANY_TIMES = 10  # times the median: fewer is no bot, however similar the other users are
NOT_MANY = 100  # interactions: nor is a user who has fewer


@dataclass(frozen=True)
class Finding:
    name: str
    level: Level
    title: str
    count: int
    of: int
    examples: tuple[str, ...] = ()
    advice: str = ""


def health(log: Log) -> dict[str, Any]:
    """The part of the summary about the log's health."""
    by_user = np.bincount(log.users, minlength=len(log.data.users))
    by_item = np.bincount(log.items, minlength=len(log.data.items))
    findings = [
        *_small(log), _duplicates(log), *([_shared(log)] if log.was_split else []), _bots(log, by_user),
        *_columns(log, by_user, by_item), *_look_alikes(log), *_times(log),
    ]  # fmt: skip
    order = {"serious": 0, "notice": 1, "fine": 2}
    return {"findings": [asdict(finding) for finding in sorted(findings, key=lambda one: order[one.level])]}


def described(log: Log) -> dict[str, Any]:
    """The part of the summary about the sizes of the log."""
    users, items = len(np.unique(log.users)), len(np.unique(log.items))
    return {
        "name": log.data.name, "users": users, "items": items, "interactions": len(log), "rows": len(log.raw),
        "parts": {name: int(np.sum(log.part == number)) for number, name in enumerate(PARTS)},
        "density": len(log) / (users * items),
        "value": log.rows.source_name("value") if log.rows.has_value else None,
        "time": log.rows.source_name("time") if log.rows.has_time else None,
        "notes": list(log.data.notes),
    }  # fmt: skip


def as_json(summary: dict[str, Any]) -> Any:
    """The summary as JSON holds it: no numpy numbers, no tuples, null for numbers that are not finite."""
    return json.loads(json.dumps(summary, default=lambda value: value.item()), parse_constant=lambda _: None)


def _pairs_as_text(log: Log, keys: IntArray, suffixes: Sequence[str] = ()) -> tuple[str, ...]:
    size = len(log.data.items)
    users, items = log.data.users.take(keys // size).to_pylist(), log.data.items.take(keys % size).to_pylist()
    suffixes = suffixes or [""] * len(keys)
    return tuple(f"{user} · {item}{suffix}" for user, item, suffix in zip(users, items, suffixes, strict=True))


def _small(log: Log) -> Iterable[Finding]:
    if len(log) < SMALL:
        yield Finding(
            "small", "serious", f"The log has only {len(log):,} interactions", len(log), len(log), (),
            f"With fewer than about {SMALL:,} the share of noise cannot be estimated: trust only the order of p_real.",
        )  # fmt: skip


def _duplicates(log: Log) -> Finding:
    keys, counts = np.unique(pairs(log.data, log.raw), return_counts=True)
    repeats = int((counts - 1).sum())
    if not repeats:
        return Finding("duplicates", "fine", "No pair occurs twice", 0, len(log.raw))
    worst = np.argsort(-counts, kind="stable")[:EXAMPLES]
    return Finding(
        "duplicates", "notice", f"{repeats:,} rows repeat a (user, item) pair", repeats, len(log.raw),
        _pairs_as_text(log, keys[worst], [f": {count} times" for count in counts[worst]]),
        "Each pair was counted once, with its latest row. If repeats mean something (plays, visits), add them up in a "
        "value column; if they come from events that were sent twice, remove them at the source.",
    )  # fmt: skip


def _shared(log: Log) -> Finding:
    parts = {name: getattr(log.data, name) for name in ("train", "valid", "test", "test_noisy")}
    keys = {name: np.unique(pairs(log.data, part)) for name, part in parts.items() if part is not None}
    both = {
        f"{one}, {other}": len(np.intersect1d(keys[one], keys[other], assume_unique=True))
        for one, other in combinations(keys, 2)
        # the paper's split cuts the validation out of the test
        if (one, other) not in (("test", "test_noisy"), ("valid", "test_noisy"))
    }
    shared = {name: count for name, count in both.items() if count}
    total = sum(shared.values())
    if not total:
        return Finding("shared", "fine", "Train, valid and test share no pair", 0, len(log))
    one, other = (getattr(log.data, name) for name in max(shared, key=lambda both: shared[both]).split(", "))
    examples = np.intersect1d(pairs(log.data, one), pairs(log.data, other))[:EXAMPLES]
    counts = ", ".join(f"{count:,} in {name.replace(', ', ' and ')}" for name, count in shared.items())
    serious = any(name.startswith("train") for name in shared)
    return Finding(
        "shared", "serious" if serious else "notice", f"Parts of the split share pairs: {counts}", total, len(log),
        _pairs_as_text(log, examples),
        "Pairs that were trained on must not be tested on: remove them from the test, or split again.",
    )  # fmt: skip


def _bots(log: Log, by_user: IntArray) -> Finding:
    active = by_user[by_user > 0]
    low, middle, high = np.quantile(np.log(active), [0.25, 0.5, 0.75])
    limit = max(np.exp(high + FAR_OUT * (high - low)), MANY_TIMES * np.exp(middle), NOT_MANY)
    rows = np.flatnonzero(by_user > limit)
    rows = rows[np.argsort(-by_user[rows], kind="stable")]
    if not len(rows):
        return Finding("bots", "fine", "No user is far more active than the others", 0, len(active))
    share, median = by_user[rows].sum() / active.sum(), float(np.median(active))
    examples = tuple(
        f"{user}: {count:,} interactions ({count / median:,.0f} times the median)"
        for user, count in zip(log.data.users.take(rows[:EXAMPLES]).to_pylist(), by_user[rows], strict=False)
    )
    return Finding(
        "bots", "serious" if share > 0.05 else "notice",
        f"{len(rows):,} users are far more active than the others, with {share:.1%} of the interactions",
        len(rows), len(active), examples,
        "Check whether they are people: bots, monitors and shared accounts should be removed before training.",
    )  # fmt: skip


def _columns(log: Log, by_user: IntArray, by_item: IntArray) -> Iterable[Finding]:
    """Columns that carry no information, or are probably misread."""
    rows = len(log)
    for side, counts in (("user", by_user), ("item", by_item)):
        if counts.max() == 1:
            yield Finding(
                f"unique_{side}", "serious", f"Every {side} occurs only once", rows, rows, (),
                f"The {side} column is probably a row, visit or event number: give the right one (--{side}-col).",
            )  # fmt: skip
    for name in ("value", "time"):
        if name not in log.rows.table.column_names:
            continue
        values = log.rows.table.column(name).drop_null().to_numpy()
        column = log.rows.source_name(name)
        if infinite := int(np.isinf(values).sum()):
            yield Finding(
                f"infinite_{name}", "serious", f"{infinite:,} interactions have a {column} that is not finite",
                infinite, rows, (), "Correct them, or leave them empty.",
            )  # fmt: skip
        distinct = np.unique(values)
        if len(distinct) == 1:
            yield Finding(
                f"constant_{name}", "notice", f"Column {column} has only one value", rows, rows, (f"{distinct[0]:g}",),
                "It carries no information: leave it out, or find out why it is constant.",
            )  # fmt: skip
        elif name == "value" and len(distinct) == rows > 100 and np.array_equal(values, np.round(values)):
            yield Finding(
                "unique_value", "notice", f"Column {column} has a different value in every row", rows, rows,
                tuple(f"{value:g}" for value in values[:EXAMPLES]),
                "It looks like a row number or a time, not a rating or a measurement: name the column that is one.",
            )  # fmt: skip


def look_alikes(ids: IdMap) -> list[list[int]]:
    """Groups of rows whose ids are the same but for case, Unicode form, blanks or a .0 behind a number."""
    if not pa.types.is_string(ids.ids.type):
        return []
    same = pc.utf8_trim_whitespace(pc.utf8_lower(pc.utf8_normalize(ids.ids, form="NFKC")))
    same = pc.replace_substring_regex(same, r"^(-?[0-9]+)\.0+$", r"\1")
    codes = np.asarray(same.dictionary_encode().indices)
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    order = rows[np.argsort(codes[rows], kind="stable")]
    return [group.tolist() for group in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(group)]


def _look_alikes(log: Log) -> Iterable[Finding]:
    for side in ("users", "items"):
        ids = getattr(log.data, side)
        if alike := look_alikes(ids):
            count = sum(map(len, alike))
            examples = (", ".join(shown(ids.ids[row].as_py()) for row in group) for group in alike[:EXAMPLES])
            yield Finding(
                f"alike_{side}", "notice", f"{count:,} {side} look like others", count, len(ids), tuple(examples),
                "They differ only in case, Unicode form or spaces, and count as different: write them the same way "
                "where they are the same.",
            )  # fmt: skip


def _times(log: Log) -> Iterable[Finding]:
    if not log.raw.has_time:
        return
    raw = np.asarray(log.raw.table.column("time").drop_null().to_numpy())
    odd = raw[(raw <= 0) | (raw > time.time() + 86400)] if is_date(raw) or (raw > 1e11).any() else raw[:0]
    if len(odd):
        yield Finding(
            "odd_times", "serious", f"{len(odd):,} times lie before 1970 or in the future", len(odd), len(raw),
            tuple(f"{value:,}" for value in odd[:EXAMPLES].tolist()),
            "Check their unit (seconds, not milliseconds) and the clocks: a split by time misplaces such rows.",
        )  # fmt: skip
    counts = np.unique(np.stack([log.users, log.rows.table.column("time").to_numpy()]), axis=1, return_counts=True)[1]
    tied = int(counts[counts > 1].sum())
    if tied > 0.2 * len(log):
        yield Finding(
            "tied_times", "notice", f"{tied:,} interactions share their time with another of the same user", tied,
            len(log), (), "Their order is unknown, so a test on the last of them is partly chance: the times may "
            "be those of an upload, not of the events.",
        )  # fmt: skip
