"""What a dataset contains, and what in it calls for caution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import labels
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.sorting import distinct
from accord.data.split import cold_notes, pairs
from accord.errors import shown


@dataclass(frozen=True)
class Report:
    """Counts of a dataset; `findings` are the sentences about what is unusual."""

    name: str
    users: int
    items: int
    interactions: dict[str, int]  # of each part
    sparsity: float  # share of all user-item pairs that are not in train
    duplicates: dict[str, int]  # rows of each part that repeat a pair
    shared: dict[str, int]  # "train, test": different pairs that are in both
    cold: dict[str, int]  # users, items, and interactions of the test with either, that training has never seen
    findings: list[str]
    notes: list[str]  # what the reader decided
    labels: dict[str, Any]  # see `labels.summary`

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value or name != "labels"}


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
    repeated = cold_notes(dataset)  # which the findings say in more detail
    notes = [note for note in dataset.notes if note not in repeated]
    duplicates = {name: len(keys[name]) - len(unique[name]) for name in parts}
    labelled = labels.summary(dataset)
    findings = labels.described(labelled)
    findings += [f"{count} rows of {name} repeat a (user, item) pair." for name, count in duplicates.items() if count]
    findings += [f"{count} pairs are in both {both.replace(', ', ' and ')}." for both, count in shared.items() if count]
    findings += [
        f"{cold[what]} {what} of the test do not occur in training." for what in ("users", "items") if cold[what]
    ]
    if cold["interactions"]:
        findings.append(
            f"{cold['interactions']} of {len(dataset.test)} test interactions have such a user or item: only "
            "popularity can guess them."
        )
    is_noted = any(" rows have no value;" in note for note in notes)
    for name, part in parts.items():
        findings += _about_columns(name, part, is_noted)
    if full := int(np.sum(train.counts == len(dataset.items))):
        findings.append(f"{full} users have every item in train, so no negative can be drawn for them; remove them.")
    findings += _about_ids(dataset)
    if unused := len(dataset.items) - counts["items"]:
        findings.append(f"{unused} items have no interactions; they are ranked like any other item.")
    sizes = {name: len(part) for name, part in parts.items()}
    sparsity = 1 - len(unique["train"]) / (counts["users"] * counts["items"])
    return Report(
        dataset.name,
        counts["users"],
        counts["items"],
        sizes,
        sparsity,
        duplicates,
        shared,
        cold,
        findings,
        notes,
        labelled,
    )


def _about_columns(name: str, part: Interactions, missing_is_noted: bool) -> Iterator[str]:
    for column in part.names[2:]:
        values = part.column(column)
        # a clean part has one value by its rule
        is_clean = column == "value" and name in ("test", "valid_clean")
        if column != "label" and not is_clean and len(values) and (values == values[0]).all():
            yield f"column {name} {column} has only one value, so it carries no information."
    if part.has_value and name in ("train", "valid"):
        values = part.column("value")
        if not missing_is_noted and (missing := int(np.isnan(values).sum())):
            yield f"{missing} rows of {name} have no value."
        if infinite := int(np.isinf(values).sum()):
            yield f"{infinite} rows of {name} have a value that is not finite."


def _about_ids(dataset: Dataset) -> Iterator[str]:
    for what, ids in (("users", dataset.users), ("items", dataset.items)):
        if alike := look_alikes(ids):
            one, other = (shown(ids.ids[row].as_py()) for row in alike[0][:2])
            yield (
                f"{sum(map(len, alike))} {what} look like another and are different ids, such as {one} and {other}:"
                " they differ only by case, Unicode form, blanks or a .0."
            )


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
