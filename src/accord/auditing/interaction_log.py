"""The log that is audited: every (user, item) pair once, all rows of the source, and what is true of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data import read
from accord.data.catalog import name_of
from accord.data.columns import Columns
from accord.data.csr import Bools, Csr, Floats, IntArray
from accord.data.databases import Query
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.load import in_files, load, table_of
from accord.data.rules import CleanRule
from accord.data.sources import open_source
from accord.data.split import DATES, pairs
from accord.evaluation import noise

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Truth:
    """Which interactions are real and which are noise, by their values or by the labels that were given.
    p_real is measured by it. No model sees the values, and the p_real of a labelled interaction is not learned from its
    label."""

    real_rule: str
    noise_rule: str
    labelled: Bools  # [n]
    real: Bools  # [n], where labelled
    given: bool = False  # whether it comes from given labels, not from values


@dataclass(frozen=True)
class Log:
    """A log with the split that denoising is tested on."""

    data: Dataset
    rows: Interactions  # one per pair, of all parts
    users: IntArray  # [n] rows in data.users
    items: IntArray
    part: IntArray  # [n] index into PARTS
    raw: Interactions  # with repeated pairs, in the order of the source
    columns: pa.Table  # the same rows, with every column of the source
    clean: str | None  # the rule that made the test clean; None where the test came with the data
    truth: Truth | None
    label: Floats | None  # [n] given labels: 1 real, 0 noise, NaN unknown, or between; None: no labels were given
    was_split: bool  # whether the split came with the data

    def __len__(self) -> int:
        return len(self.rows)

    def csr(self) -> Csr:
        return Csr.of(self.users, self.items, len(self.data.users), len(self.data.items))

    def titles(self, items: Sequence[Any]) -> list[str | None]:
        info = self.data.item_info
        if info is None:
            return [None] * len(items)
        rows = self.data.items.rows(items)
        return list(info.column("title").combine_chunks().take(pa.array(rows, mask=rows < 0)).to_pylist())


def open_log(
    source: Any, *, columns: Columns | None = None, clean: str | None = None, by_values: bool = True, **options: Any
) -> Log:
    """Open whatever `accord.load` takes, with its options. Without a clean rule, values that tell real from noise give
    one, if they are to (`by_values`)."""
    options["columns"] = columns
    if isinstance(source, Query):  # queried once: the table may change meanwhile
        options["name"], (source, _) = source.name, read.read_all_columns(source)
    table = table_of(source)
    if table is None:
        data = load(source, clean=clean, **options)
        raw = _joined(data)
        sizes = [len(part) for part in _parts(data)]
        everything = raw.table.append_column("part", pa.array(np.repeat(PARTS, sizes)))
        rule, truth = None, _truth_of_values(raw.merged(), None)
    else:
        if in_files(source, table):
            opened = open_source(source)
            options["name"] = name_of(source)
            everything, source = opened.in_memory()
            table = source
        else:
            everything, _ = read.read_all_columns(table)
        raw, _ = read.read_table(table, columns, CleanRule.parse(clean).names if clean else (), merge=False)
        truth = _truth_of_values(raw.merged(), clean)
        rule = clean or (truth.real_rule if truth is not None and by_values else None)
        data = load(source, clean=rule, **options)
    rows = raw.without("label").merged()  # no model may see the labels
    keys = pairs(data, rows)
    label = _given_labels(data, keys)
    if label is not None:  # the truth, unless all labels say the same
        labelled, real = ~np.isnan(label) & (label != 0.5), label > 0.5
        mixed = real[labelled].any() and not real[labelled].all()
        truth = Truth("label 1", "label 0", labelled, real & labelled, given=True) if mixed else None
    in_train, in_valid = (np.isin(keys, pairs(data, part)) for part in (data.train, data.valid))
    part = np.where(in_train, 0, np.where(in_valid, 1, 2)).astype(np.int64)
    user_rows, item_rows = data.users.rows(rows.users), data.items.rows(rows.items)
    return Log(data, rows, user_rows, item_rows, part, raw, everything, rule, truth, label, table is None)


def _given_labels(data: Dataset, keys: IntArray) -> Floats | None:
    """The labels that were given, of pairs of the log; None where there are none."""
    parts = [part for part in _parts(data) if "label" in part.names]
    if not parts:
        return None
    labelled = np.concatenate([pairs(data, part) for part in parts])
    label = np.concatenate([part.column("label").astype(np.float64) for part in parts])
    place = IdMap(pa.array(labelled)).rows(keys)
    return np.where(place >= 0, label[place], np.nan)


def _truth_of_values(rows: Interactions, clean: str | None) -> Truth | None:
    """The truth by the clean rule where one is given, else by what labels and ratings usually mean."""
    if clean is not None:
        real = CleanRule.parse(clean).mask(rows)  # a row without the value does not count as real
        mixed = real.any() and not real.all()
        return Truth(clean, f"not {clean}", np.ones(len(rows), dtype=bool), real) if mixed else None
    if not rows.has_value:
        return None
    values = rows.column("value")
    present = np.flatnonzero(~np.isnan(values.astype(np.float64)))
    by_value = noise.labels(rows.take(present)) if len(present) else None
    if by_value is None:
        return None
    labelled, real = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    places = present[by_value[0]]
    labelled[places], real[places] = True, by_value[1]
    binary = set(np.unique(values[labelled])) <= {0, 1}
    rules = ("value>=1", "value<=0") if binary else (f"value>={noise.REAL_FROM}", f"value<={noise.NOISE_TO}")
    return Truth(*rules, labelled, real)


def _parts(data: Dataset) -> list[Interactions]:
    """Train, valid and the noisy test, without the pairs of valid where the test still contains them."""
    test = data.test if data.test_noisy is None else data.test_noisy
    valid_keys, test_keys = pairs(data, data.valid), pairs(data, test)
    if len(data.valid) and np.isin(valid_keys, test_keys).all():
        test = test.filter(~np.isin(test_keys, valid_keys))
    return [data.train, data.valid, test]


def _joined(data: Dataset) -> Interactions:
    tables = []
    for part in _parts(data):
        table = part.table
        for place, kind in enumerate((data.users.ids.type, data.items.ids.type)):
            table = table.set_column(place, table.column_names[place], table.column(place).cast(kind))
        tables.append(table)
    return Interactions(pa.concat_tables(tables, promote_options="default").combine_chunks())


def is_date(times: npt.NDArray[Any]) -> bool:
    """Whether the times are seconds since 1970, judged by their median."""
    return len(times) > 0 and DATES[0] < float(np.median(times)) < DATES[1]
