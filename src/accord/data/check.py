"""What a dataset contains, and what in it calls for caution."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import labels
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.sorting import distinct
from accord.data.split import cold_notes, pairs
from accord.errors import shown

FEW_VALUES = 12  # up to this many distinct values are listed one by one


@dataclass(frozen=True)
class Report:
    """Counts of a dataset; `findings` are the sentences about what is unusual."""

    name: str
    users: int
    items: int
    interactions: dict[str, int]  # of each part
    density: float  # share of all user-item pairs that are in train
    duplicates: dict[str, int]  # rows of each part that repeat a pair
    shared: dict[str, int]  # "train, test": different pairs that are in both
    cold: dict[str, int]  # users, items, and interactions of the test with either, that training has never seen
    values: dict[str, dict[str, int]]  # of each part: value -> rows, where there are few
    constant: tuple[str, ...]  # "train value": columns with one value only
    full_users: int  # users who have every item in train
    findings: tuple[str, ...]
    notes: tuple[str, ...]  # what the reader decided
    labels: dict[str, Any] = field(default_factory=dict)  # see `labels.summary`

    @property
    def sparsity(self) -> float:
        return 1 - self.density

    def to_dict(self) -> dict[str, Any]:
        facts = {**asdict(self), "sparsity": self.sparsity}
        return facts if self.labels else {name: value for name, value in facts.items() if name != "labels"}


def check(dataset: Dataset) -> Report:
    """Examine a dataset."""
    optional = {"valid_clean": dataset.valid_clean, "test_noisy": dataset.test_noisy}
    parts = {"train": dataset.train, "valid": dataset.valid, "test": dataset.test}
    parts |= {name: part for name, part in optional.items() if part is not None}
    keys = {name: pairs(dataset, part) for name, part in parts.items()}
    unique = {name: distinct(key) for name, key in keys.items()}
    counts = dataset.counts()

    shared = {
        f"{one}, {other}": len(np.intersect1d(unique[one], unique[other], assume_unique=True))
        # valid_clean is a part of valid, as test is mostly of test_noisy: sharing pairs is expected
        for one, other in combinations([name for name in parts if name != "valid_clean"], 2)
        if {one, other} != {"test", "test_noisy"}
    }
    train = dataset.csr(dataset.train)
    trained_users, trained_items = train.counts > 0, train.popularity() > 0
    users, items = dataset.rows(dataset.test)
    cold = {
        "users": len(distinct(users[~trained_users[users]])),
        "items": len(distinct(items[~trained_items[items]])),
        "interactions": int(np.sum(~trained_users[users] | ~trained_items[items])),
    }
    constant = tuple(
        f"{name} {column}"
        for name, part in parts.items()
        for column in part.names[2:]
        if column != "label" and len(part) and _is_constant(part.column(column))
    )
    repeated = cold_notes(dataset)  # which the findings say in more detail
    report = Report(
        name=dataset.name,
        users=counts["users"],
        items=counts["items"],
        interactions={name: len(part) for name, part in parts.items()},
        density=len(unique["train"]) / (counts["users"] * counts["items"]),
        duplicates={name: len(keys[name]) - len(unique[name]) for name in parts},
        shared=shared,
        cold=cold,
        values={name: counted for name, part in parts.items() if (counted := _values(part))},
        constant=constant,
        full_users=int(np.sum(train.counts == len(dataset.items))),
        findings=(),
        notes=tuple(note for note in dataset.notes if note not in repeated),
        labels=labels.summary(dataset),
    )
    return replace(report, findings=tuple(_findings(report, dataset)))


def _is_constant(column: npt.NDArray[Any]) -> bool:
    """Whether all values are the same, or all are missing."""
    return bool(np.isnan(column).all() if np.isnan(column[0]) else (column == column[0]).all())


def _values(part: Interactions) -> dict[str, int]:
    if not part.has_value:
        return {}
    values, rows = np.unique(part.column("value"), return_counts=True)
    if len(values) > FEW_VALUES:
        return {}
    return {f"{value:g}": int(count) for value, count in zip(values, rows, strict=True)}


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


def _findings(report: Report, dataset: Dataset) -> list[str]:
    findings = labels.described(report.labels)
    findings += [
        f"{count} rows of {name} repeat a (user, item) pair." for name, count in report.duplicates.items() if count
    ]
    for both, count in report.shared.items():
        if count:
            one, other = both.split(", ")
            findings.append(f"{count} pairs are in both {one} and {other}.")
    tests = report.interactions["test"]
    for what in ("users", "items"):
        if count := report.cold[what]:
            findings.append(f"{count} {what} of the test do not occur in training.")
    if cold := report.cold["interactions"]:
        findings.append(
            f"{cold} of {tests} test interactions have such a user or item: only popularity can guess them."
        )
    for column in report.constant:
        # a clean part has one value by its rule
        if column not in ("test value", "valid_clean value"):
            findings.append(f"column {column} has only one value, so it carries no information.")
    is_noted = any(" rows have no value;" in note for note in report.notes)
    for name, part in (("train", dataset.train), ("valid", dataset.valid)):
        if not is_noted and part.has_value and (missing := int(np.sum(np.isnan(part.column("value"))))):
            findings.append(f"{missing} rows of {name} have no value.")
    if report.full_users:
        findings.append(
            f"{report.full_users} users have every item in train, so no negative can be drawn for them; remove them."
        )
    for what, ids in (("users", dataset.users), ("items", dataset.items)):
        if alike := look_alikes(ids):
            one, other = (shown(ids.ids[row].as_py()) for row in alike[0][:2])
            findings.append(
                f"{sum(map(len, alike))} {what} look like another and are different ids, such as {one} and {other}:"
                " they differ only by case, Unicode form, blanks or a .0."
            )
    for name, part in (("train", dataset.train), ("valid", dataset.valid)):
        if part.has_value and (infinite := int(np.sum(np.isinf(part.column("value"))))):
            findings.append(f"{infinite} rows of {name} have a value that is not finite.")
    unused = len(dataset.items) - report.items
    if unused:
        findings.append(f"{unused} items have no interactions; they are ranked like any other item.")
    return findings
