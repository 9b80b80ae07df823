"""Labels: which interactions are known to be real or noise, by a rule, a column, a file, or the kind of event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from accord.data import columns as col
from accord.data import read
from accord.data.columns import Columns
from accord.data.csr import IntArray, pair_keys
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.label_rules import Events, Floats, Rule, plain, present
from accord.data.sources import Opened
from accord.errors import InputError, shown

LIKE_NAMES = "label liked like isliked islike isreal real relevant isrelevant click isclick clicked longview isvalid"
UNLIKE = 0.05  # from an even chance, beyond which labels were not given at random
PARTS = ("train", "valid", "test", "valid_clean", "test_noisy")


def labelled(
    dataset: Dataset, source: Any, table: Any, labels: Any, events: str | None, columns: Columns | None
) -> Dataset:
    """The dataset with the labels that were given or that a frame has, or with a note where it seems to have some."""
    if labels is None and events is None:
        if not has_label(source):
            notes = [] if table is None else look_like_labels(dataset.train, source)
            return replace(dataset, notes=(*dataset.notes, *notes)) if notes else dataset
        labels = "label"
    return with_labels(dataset, table, labels, events, columns)


def with_labels(
    dataset: Dataset, source: Any, labels: Any = None, events: str | None = None, columns: Columns | None = None
) -> Dataset:
    """The dataset with a column `label` in every part: of `source`, the table it was split from, or None where it came
    split. `labels`: a rule, the name of a column, or a file or frame of user, item and label."""
    users, items, found = list[IntArray](), list[IntArray](), list[Floats]()
    for user, item, label in _said(dataset, source, labels, events, columns):
        known = ~np.isnan(label) & (user >= 0) & (item >= 0)
        users.append(user[known])
        items.append(item[known])
        found.append(label[known])
    rank_events = events is not None and labels is None
    said = events if rank_events else labels if isinstance(labels, str | Path) else f"the {type(labels).__name__}"
    label = np.concatenate(found) if found else np.zeros(0)
    if not len(label):
        raise InputError(f"labels {shown(str(said))}: no interaction of the data gets a label; check the rule or file.")
    keys = pair_keys(np.concatenate(users), np.concatenate(items), len(dataset.items))
    keys, label, conflicts = _one_a_pair(keys, label, rank_events)
    parts = {name: part for name in PARTS if (part := getattr(dataset, name)) is not None}
    made: dict[str, Any] = {}
    matched = np.zeros(len(keys), dtype=bool)
    for name, part in parts.items():
        made[name], hit = _joined(dataset, part, keys, label)
        matched |= hit
    if not matched.any():
        raise InputError(f"labels {shown(str(said))}: none of its pairs is in the data; are the ids the same?")
    notes = [f"labels {shown(str(said))}: {matched.sum():,} interactions have one."]
    if lost := int((~matched).sum()):
        notes.append(f"labels {shown(str(said))}: {lost:,} labelled pairs are not in the data and were left out.")
    if conflicts:
        notes.append(f"{conflicts:,} pairs have labels that contradict each other; each has their mean.")
    return _clean_test(replace(dataset, **made, notes=(*dataset.notes, *notes)))


def _clean_test(dataset: Dataset) -> Dataset:
    """What is labelled as noise is no preference: a test that no rule has cleaned goes without it."""
    noise = dataset.test.column("label") < 0.5
    if dataset.test_noisy is not None or not noise.any() or noise.all():
        return dataset
    note = f"the test leaves out {noise.sum():,} of {len(noise):,} interactions, which are labelled as noise."
    return replace(dataset, test=dataset.test.filter(~noise), test_noisy=dataset.test, notes=(*dataset.notes, note))


def _one_a_pair(keys: IntArray, label: Floats, highest: bool) -> tuple[IntArray, Floats, int]:
    """Sorted pairs, a label for each, and how many have labels that contradict each other: these have their mean.

    Of kinds of events (`highest`) a purchase does not contradict a view: what says most counts, unless one says noise.
    """
    pairs, place = np.unique(keys, return_inverse=True)
    low, high = np.full(len(pairs), np.inf), np.full(len(pairs), -np.inf)
    np.minimum.at(low, place, label)
    np.maximum.at(high, place, label)
    mean = np.bincount(place, label) / np.bincount(place)
    against = (low < 0.5) & (high >= 0.5) if highest else low < high
    return pairs, np.where(against, mean, high), int(against.sum())


def _joined(
    dataset: Dataset, part: Interactions, keys: IntArray, label: Floats
) -> tuple[Interactions, npt.NDArray[np.bool_]]:
    own = pair_keys(*dataset.rows(part), len(dataset.items))
    place = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    there = keys[place] == own
    column = pa.array(np.where(there, label[place], 0.0), mask=~there)
    table = part.rows.drop_columns(["label"]) if "label" in part.names else part.rows
    made = Interactions(table.append_column("label", column), (part.user_ids, part.item_ids))
    made.stored = part.stored
    hit = np.zeros(len(keys), dtype=bool)
    hit[place[there]] = True
    return made, hit


def _said(
    dataset: Dataset, source: Any, labels: Any, events: str | None, columns: Columns | None
) -> Iterator[tuple[IntArray, IntArray, Floats]]:
    """User rows, item rows and labels, NaN where unknown, in blocks."""
    kinds = None if events is None else Events.parse(events)
    text = labels if isinstance(labels, str) else None
    rule = None if text is None else Rule.parse(text)
    beside = labels is not None and rule is None and (text is None or Path(text).expanduser().is_file())
    if beside:
        yield from _of_file(dataset, labels)
    name = text if text is not None and rule is None and not beside else None
    if rule is None and name is None and kinds is None:
        return
    if source is None:
        if kinds is not None:
            raise InputError("events need the log itself; this data is already split and has no kinds of events.")
        for part in (dataset.train, dataset.valid, dataset.test if dataset.test_noisy is None else dataset.test_noisy):
            user, item = dataset.rows(part)
            yield user.astype(np.int64), item.astype(np.int64), _of_part(dataset.name, part, rule, name)
        return
    yield from _of_table(dataset, read.open_source(source), columns or Columns(), rule, name, kinds)


def _of_part(source: str, part: Interactions, rule: Rule | None, name: str | None) -> Floats:
    """Of a part of a split: rules and names are about its value or its time."""
    known = {role: role for role in part.names[2:]} | {part.source_name(role): role for role in part.names[2:]}
    wanted = rule.names if rule is not None else [str(name)]
    read_as = {one: known[present(source, one, list(known), "labels")] for one in wanted}
    values = {one: part.column(role).astype(np.float64) for one, role in read_as.items()}
    return rule.labels(values) if rule is not None else _checked(source, str(name), values[str(name)])


def _of_file(dataset: Dataset, labels: Any) -> Iterator[tuple[IntArray, IntArray, Floats]]:
    """A file or frame of user, item and label; the label may be called value where there is no header line."""
    found = read.open_source(labels)
    label = next((name for name in found.names if plain(name) == "label"), None)
    if label is None:
        label = next((name for name in found.names if plain(name) in (*LIKE_NAMES.split(), "value")), None)
    if label is None:
        raise InputError(f"{found.label} has no column 'label'; name one so, with 1 for real and 0 for noise.")
    yield from _of_table(dataset, found, Columns(), None, label, None)


def _of_table(
    dataset: Dataset, opened: Opened, given: Columns, rule: Rule | None, name: str | None, kinds: Events | None
) -> Iterator[tuple[IntArray, IntArray, Floats]]:
    source = opened.label
    chosen = col.choose(source, opened.names, replace(given, weight=None, label=None))
    ids = [str(chosen.user), str(chosen.item)]
    roles = {role: getattr(chosen, role) for role in ("value", "time")}
    wanted = rule.names if rule is not None else [] if name is None else [name]
    read_as = {
        one: roles[one] if one not in opened.names and roles.get(one) else present(source, one, opened.names, "labels")
        for one in wanted
    }
    event = None if kinds is None else kinds.name_in(source, opened.names)
    names = list(dict.fromkeys([*ids, *read_as.values(), *([] if event is None else [event])]))
    rows = 0
    for batch in opened.batches(names):
        if not batch.num_rows:
            continue
        user, item = (
            _rows(known, batch.column(one), opened.from_text)
            for known, one in zip((dataset.users, dataset.items), ids, strict=True)
        )
        if read_as:
            values = {one: _numbers(source, own, batch.column(own), rows) for one, own in read_as.items()}
            yield (
                user,
                item,
                rule.labels(values) if rule is not None else _checked(source, str(name), values[str(name)]),
            )
        if kinds is not None and event is not None:
            yield user, item, kinds.labels(source, event, batch.column(event))
        rows += batch.num_rows


def _rows(known: IdMap, column: Any, from_text: bool) -> IntArray:
    return known.rows(col.to_ids(col.plain(column), from_text, known.ids.type == pa.int64()))


def _numbers(source: str, name: str, column: Any, start: int) -> Floats:
    column = col.plain(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_string(column.type):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        if pc.all(pc.is_in(words, value_set=pa.array(["true", "false", ""]))).as_py():
            column = (
                pc.if_else(pc.equal(words, ""), pa.scalar(None, pa.string()), words).cast(pa.bool_()).cast(pa.uint8())
            )
    found = col.values(source, name, column, start, role="labels'")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)


def _checked(source: str, name: str, values: Floats) -> Floats:
    if len(bad := np.flatnonzero((values < 0) | (values > 1))):
        raise InputError(
            f"{source}: column '{name}' has {values[bad[0]]:g}, which is no label: they go from 0 (noise) to 1 (real);"
            f" give a rule instead, like '{name}>=4'."
        )
    return values


def has_label(source: Any) -> bool:
    """Whether a frame has a column `label` with numbers from 0 to 1."""
    if not hasattr(source, "__arrow_c_stream__") or isinstance(source, Interactions):
        return False
    table = read.open_source(source).table
    if table is None or "label" not in table.column_names:
        return False
    column = table.column("label")
    if pa.types.is_boolean(column.type):
        return True
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return False
    limits = pc.min_max(column)
    return limits["min"].as_py() is not None and limits["min"].as_py() >= 0 and limits["max"].as_py() <= 1


def look_like_labels(train: Interactions, source: Any) -> list[str]:
    """A note where a log seems to say itself which of its interactions are real, but nobody has said so."""
    if train.has_value:
        values = train.column("value")
        some = np.unique(values[:100_000])  # most logs are done with here
        if set(some) <= {0, 1} and set(np.unique(values)) == {0, 1}:
            called = train.source_name("value")
            return [
                f"column '{called}' is 0 in {np.mean(values == 0):.0%} of the training rows and 1 in the others, as"
                f" labels are, but every row counts as an interaction; if 0 means noise, give '{called}' as the labels."
            ]
    if isinstance(source, str | Path) and not Path(source).is_dir():
        likes = [name for name in read.open_source(source).names if plain(name) in LIKE_NAMES.split()]
        if likes and likes[0] != (train.source_name("value") if train.has_value else None):
            return [f"column '{likes[0]}' looks like a label; if it is one, give it as the labels."]
    return []


def summary(dataset: Dataset) -> dict[str, Any]:
    """How many training interactions have a label, of whom, and how unlike the others they look; empty: none has.

    `more_popular`: the chance that a labelled interaction has a more popular item than one without a label;
    `more_active`: the same of the activity of its user. Both are .5 where labels were given at random.
    """
    if "label" not in dataset.train.names:
        return {}
    train = dataset.csr(dataset.train, columns=("label",))
    label = train.columns["label"]
    known = ~np.isnan(label)
    if not known.any():
        return {}
    users, items = train.users, train.items
    counts = train.counts[users], train.popularity()[items]
    return {
        "labels": int(known.sum()),
        "interactions": len(label),
        "real": int((label == 1).sum()),
        "noise": int((label == 0).sum()),
        "between": int((known & (label > 0) & (label < 1)).sum()),
        "users": len(np.unique(users[known])),
        "items": len(np.unique(items[known])),
        "of_users": int((train.counts > 0).sum()),
        "of_items": int((train.popularity() > 0).sum()),
        "more_active": _chance_of_more(counts[0], known),
        "more_popular": _chance_of_more(counts[1], known),
    }


def _chance_of_more(values: npt.NDArray[Any], of: npt.NDArray[np.bool_]) -> float:
    from scipy.stats import rankdata

    number, rest = int(of.sum()), int((~of).sum())
    if not rest:
        return 0.5
    return float((rankdata(values)[of].sum() - number * (number + 1) / 2) / (number * rest))


def described(found: Mapping[str, Any]) -> list[str]:
    """The summary in sentences."""
    if not found:
        return []
    between = f", {found['between']:,} between" if found["between"] else ""
    sentences = [
        f"{found['labels']:,} of {found['interactions']:,} training interactions have a label: {found['real']:,} real, "
        f"{found['noise']:,} noise{between}; they are of {found['users']:,} of {found['of_users']:,} users and "
        f"{found['items']:,} of {found['of_items']:,} items."
    ]
    rest = max(found["interactions"] - found["labels"], 1)
    chance = np.sqrt((found["interactions"] + 1) / (12 * found["labels"] * rest))  # standard error of either
    for name, what in (("more_popular", "items are {} popular"), ("more_active", "users are {} active")):
        if abs(found[name] - 0.5) > max(UNLIKE, 3 * chance):
            more = what.format("more" if found[name] > 0.5 else "less")
            sentences.append(
                f"labelled interactions are unlike the others: their {more}"
                f" (in {max(found[name], 1 - found[name]):.0%} of comparisons)."
            )
    return sentences
