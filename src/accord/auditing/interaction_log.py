"""The log that is audited: every (user, item) pair once, all rows as they came, and labels from the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import read
from accord.data.columns import Columns
from accord.data.csr import Csr, IntArray
from accord.data.databases import Query
from accord.data.interactions import Dataset, Interactions
from accord.data.load import load, table_of
from accord.data.split import CleanRule, pairs
from accord.evaluation import noise

PARTS = ("train", "valid", "test")

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Labels:
    """Which rows are real and which are noise by their values, and by which rules, or by the labels that were given.
    Values are never used for training; what a given label says of its own row is not behind its p_real either."""

    real_rule: str
    noise_rule: str
    known: Bools  # [n]
    real: Bools  # [n], where known
    given: bool = False  # whether they are the labels that were given


@dataclass(frozen=True)
class Log:
    """A log with the split that denoising is tested on."""

    data: Dataset
    rows: Interactions  # one per pair, of all parts
    users: IntArray  # [n] rows in data.users
    items: IntArray
    part: IntArray  # [n] place in PARTS
    raw: Interactions  # as they came, with repeated pairs
    columns: pa.Table  # as `raw`, with every column of the source
    clean: str | None  # the rule that made the test clean; None where the test came with the data
    labels: Labels | None
    label: Floats | None  # [n] what was given: 1 real, 0 noise, NaN unknown, or between; None: no labels were given
    was_split: bool  # whether the split came with the data

    def __len__(self) -> int:
        return len(self.rows)

    def csr(self) -> Csr:
        return Csr.of(self.users, self.items, len(self.data.users), len(self.data.items))

    def value_name(self) -> str | None:
        return self.rows.source_name("value") if self.rows.has_value else None

    def time_name(self) -> str | None:
        return self.rows.source_name("time") if self.rows.has_time else None

    def titles(self, items: Sequence[Any]) -> list[str | None]:
        """The titles of items, None where an item has none."""
        info = self.data.item_info
        if info is None:
            return [None] * len(items)
        rows = self.data.items.rows(items)
        return list(info.column("title").combine_chunks().take(pa.array(rows, mask=rows < 0)).to_pylist())


def open_log(
    source: Any,
    *,
    columns: Columns | None = None,
    split: str = "auto",
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    clean: str | None = None,
    seed: int = 0,
    items: Any = None,
    said: Mapping[str, Any] | None = None,
) -> Log:
    """Open whatever `accord.load` takes. Without a clean rule, values that tell real from noise give one.

    `said`: the labels and events that `accord.load` takes."""
    name, more = None, dict(said or {})
    if isinstance(source, Query):  # asked once: the table may change meanwhile
        name, (source, _) = source.name, read.whole_table(source)
    table = table_of(source)
    if table is None:
        data = load(source, columns=columns, split=split, ratios=ratios, clean=clean, seed=seed, items=items, **more)
        raw = _joined(data)
        sizes = [len(one) for one in _parts(data)]
        whole, labels = raw.table.append_column("part", pa.array(np.repeat(PARTS, sizes))), _labels(raw.merged(), None)
        rule = None
    else:
        rule_names = CleanRule.parse(clean).names if clean else ()
        raw, _ = read.read_table(table, columns, rule_names, merge=False)
        whole, _ = read.whole_table(table)
        labels = _labels(raw.merged(), clean)
        rule = clean or (None if labels is None else labels.real_rule)
        data = load(
            source, columns=columns, split=split, ratios=ratios, clean=rule, seed=seed, items=items, name=name, **more
        )
    rows = raw.without("label").merged()  # what judges them is told no label
    keys = pairs(data, rows)
    label = _label_of(data, keys)
    labels = labels if label is None else _given(label)
    part = np.where(
        np.isin(keys, pairs(data, data.train)), 0, np.where(np.isin(keys, pairs(data, data.valid)), 1, 2)
    ).astype(np.int64)
    user_rows, item_rows = data.users.rows(rows.users), data.items.rows(rows.items)
    return Log(data, rows, user_rows, item_rows, part, raw, whole, rule, labels, label, table is None)


def _label_of(data: Dataset, keys: IntArray) -> Floats | None:
    """The labels that were given, of pairs of the log; None where there are none."""
    said = [part for part in _parts(data) if "label" in part.names]
    if not said:
        return None
    own = np.concatenate([pairs(data, part) for part in said])
    label = np.concatenate([part.column("label").astype(np.float64) for part in said])
    order = np.argsort(own, kind="stable")
    place = np.minimum(np.searchsorted(own[order], keys), len(own) - 1)
    return np.where(own[order][place] == keys, label[order][place], np.nan)


def _given(label: Floats) -> Labels | None:
    """Given labels as what p_real is measured by; None where all of them say the same."""
    known, real = ~np.isnan(label) & (label != 0.5), label > 0.5
    if not real[known].any() or real[known].all():
        return None
    return Labels("label 1", "label 0", known, real & known, given=True)


def _parts(data: Dataset) -> list[Interactions]:
    """Train, valid and the whole test, without the pairs of valid where the test still contains them."""
    test = data.test if data.test_noisy is None else data.test_noisy
    valid_keys, test_keys = pairs(data, data.valid), pairs(data, test)
    if len(data.valid) and np.isin(valid_keys, test_keys).all():
        test = test.filter(~np.isin(test_keys, valid_keys))
    return [data.train, data.valid, test]


def _joined(data: Dataset) -> Interactions:
    """All parts of a split, one after another. Columns that only some parts have are null in the others."""
    tables = []
    for part in _parts(data):
        ids = [data.users.ids.type, data.items.ids.type]
        table = part.table
        for place, kind in enumerate(ids):
            table = table.set_column(place, table.column_names[place], table.column(place).cast(kind))
        tables.append(table)
    return Interactions(pa.concat_tables(tables, promote_options="default").combine_chunks())


def _labels(rows: Interactions, clean: str | None) -> Labels | None:
    """Labels from the values: by the clean rule where one is given, else by what labels and ratings usually mean."""
    if clean is not None:
        rule = CleanRule.parse(clean)
        real = rule.mask(rows)  # a row without the value does not count as real
        mixed = real.any() and not real.all()
        return Labels(clean, f"not {clean}", np.ones(len(rows), dtype=bool), real) if mixed else None
    if not rows.has_value:
        return None
    present = ~np.isnan(rows.column("value").astype(np.float64))
    found = noise.labels(rows.filter(present)) if present.any() else None
    if found is None:
        return None
    known, real = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    places = np.flatnonzero(present)[found[0]]
    known[places], real[places] = True, found[1]
    two = set(np.unique(rows.column("value")[known])) <= {0, 1}
    rules = ("value>=1", "value<=0") if two else (f"value>={noise.REAL_FROM}", f"value<={noise.NOISE_TO}")
    return Labels(*rules, known, real)
