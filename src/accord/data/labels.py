"""Labels: which interactions are real and which are noise, by a rule, a column, a file, or the kind of event."""

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
from accord.data.columns import ColumnError, Columns
from accord.data.csr import IntArray, pair_keys
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.rules import EVENT_NAMES, LEAST_SHARE, UNKNOWN, EventRule, Floats, LabelRule, code_in, require_column
from accord.data.sources import Opened, frame, open_source
from accord.errors import Argument, InputError, Note, shown

LIKE_NAMES = (
    "label liked like isliked islike isreal real relevant isrelevant click isclick clicked longview isvalid thumb "
    "thumbs"
)
LIKED = 0.65  # of a scale of ratings, from where a note proposes to call them real
PARTS = ("train", "valid", "test", "valid_clean", "test_noisy")

Labelled = tuple[IntArray, IntArray, Floats]  # user rows, item rows and labels, NaN where unknown


def labelled(
    dataset: Dataset, source: Any, table: Any, labels: Any, events: str | None, columns: Columns | None
) -> Dataset:
    """The dataset with the labels that were given or that a frame has, or with a note where it seems to have some."""
    if labels is None and events is None:
        if not has_label(source):
            notes = [] if table is None else look_like_labels(dataset.train, table)
            return replace(dataset, notes=(*dataset.notes, *notes)) if notes else dataset
        labels = "label"
    return with_labels(dataset, table, labels, events, columns)


def with_labels(
    dataset: Dataset, source: Any, labels: Any = None, events: str | None = None, columns: Columns | None = None
) -> Dataset:
    """The dataset with a column `label` in every part: of `source`, the table it was split from, or None where it came
    split. `labels`: a rule, the name of a column, or a file or frame of user, item and label."""
    by_events = events is not None and labels is None
    several = labels if isinstance(labels, list | tuple) else [events if by_events else labels]
    given = [str(one) if isinstance(one, str | Path) else f"the {type(one).__name__}" for one in several]
    what = f"labels {' and '.join(map(shown, given))}"
    keys, label, unknown = np.zeros(0, dtype=np.int64), np.zeros(0), 0
    for user, item, some in _labels_of(dataset, source, labels, events, columns):
        given_one, known = ~np.isnan(some), (user >= 0) & (item >= 0)
        unknown += int((given_one & ~known).sum())
        keys = np.append(keys, pair_keys(user[given_one & known], item[given_one & known], len(dataset.items)))
        label = np.append(label, some[given_one & known])
    if not len(label):
        why = "none of their users and items are in it; give the same ids." if unknown else "check the rule or file."
        raise InputError(f"{what}: no interaction of the data gets a label; {why}")
    keys, label, conflicts = _one_a_pair(keys, label, by_events)
    parts: dict[str, Any] = {}
    matched = np.zeros(len(keys), dtype=bool)
    for name in PARTS:
        if (part := getattr(dataset, name)) is not None:
            parts[name] = _with_label(dataset, part, keys, label, matched)
    notes = []
    if matched.any():
        notes.append(f"{what}: {matched.sum():,} interactions have a label.")
    else:
        parts = {}
    lost = int((~matched).sum())
    if lost and not _is_separate(labels):
        notes.append(f"{what}: {lost:,} labelled pairs are not in the data and were left out.")
    elif lost:
        parts["outside"] = _pairs(dataset, keys[~matched], label[~matched])
        refused = int((label[~matched] < 0.5).sum())
        notes.append(
            f"{what}: {lost:,} pairs are not in the log: {refused:,} refused, which are never recommended, and "
            f"{lost - refused:,} liked."
        )
    if unknown:
        notes.append(f"{what}: {unknown:,} are of users or items that the log does not have, and were left out.")
    if (label > 0.5).all():
        follows = (
            "Real ones are compared with interactions without a label; how many of those are real remains unknown."
        )
        if "train" in parts and not parts["train"].table["label"].null_count:
            follows = "Every interaction has one, so nothing can be learned from them."
        notes.append(f"{what}: none says noise. {follows}")
    if (label < 0.5).all() and not _is_separate(labels):
        notes.append(f"{what}: none says real, so nothing can be learned from them; check what they say.")
    if conflicts:
        notes.append(f"{conflicts:,} pairs have contradicting labels; the mean is used.")
    return _clean_test(replace(dataset, **parts, notes=(*dataset.notes, *notes)))


def _pairs(dataset: Dataset, keys: IntArray, label: Floats) -> Interactions:
    rows = (pa.array(rows, pa.int32()) for rows in np.divmod(keys, len(dataset.items)))
    columns = dict(zip(("user", "item"), rows, strict=True))
    return Interactions(pa.table({**columns, "label": label}), (dataset.users, dataset.items))


def _clean_test(dataset: Dataset) -> Dataset:
    """What is labelled as noise is no preference: a test that no rule has cleaned goes without it."""
    if "label" not in dataset.test.names:
        return dataset
    noise = dataset.test.column("label") < 0.5
    if dataset.test_noisy is not None or not noise.any() or noise.all():
        return dataset
    note = f"the test leaves out {noise.sum():,} of {len(noise):,} interactions, which are labelled as noise."
    return replace(dataset, test=dataset.test.filter(~noise), test_noisy=dataset.test, notes=(*dataset.notes, note))


def _one_a_pair(keys: IntArray, label: Floats, highest: bool) -> tuple[IntArray, Floats, int]:
    """Sorted pairs, a label for each, and how many have labels that contradict each other: these have their mean.
    Of kinds of events (`highest`) a purchase does not contradict a view: the highest label counts, unless one says
    noise."""
    pairs, place = np.unique(keys, return_inverse=True)
    low, high = np.full(len(pairs), np.inf), np.full(len(pairs), -np.inf)
    np.minimum.at(low, place, label)
    np.maximum.at(high, place, label)
    mean = np.bincount(place, label) / np.bincount(place)
    against = (low < 0.5) & (high >= 0.5) if highest else low < high
    return pairs, np.where(against, mean, high), int(against.sum())


def _with_label(
    dataset: Dataset, part: Interactions, keys: IntArray, label: Floats, matched: npt.NDArray[np.bool_]
) -> Interactions:
    """A part with its labels; marks the labels that it has in `matched`."""
    pairs = pair_keys(*dataset.rows(part), len(dataset.items))
    place = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
    has_one = keys[place] == pairs
    matched[place[has_one]] = True
    return part.with_column("label", pa.array(np.where(has_one, label[place], 0.0), mask=~has_one))


def _labels_of(
    dataset: Dataset, source: Any, labels: Any, events: str | None, columns: Columns | None
) -> Iterator[Labelled]:
    if isinstance(labels, list | tuple):
        for one in labels:
            yield from _labels_of(dataset, source, one, None, columns)
        labels = None
    event_rule = None if events is None else EventRule.parse(events)
    rule: LabelRule | str | None = LabelRule.parse(labels) if isinstance(labels, str) else None
    if _is_separate(labels):
        yield from _of_file(dataset, labels)
    elif rule is None:
        rule = labels
    if rule is None and event_rule is None:
        return
    if source is not None:
        yield from _of_table(dataset, open_source(source), columns or Columns(), rule, event_rule)
        return
    for part in (dataset.train, dataset.valid, dataset.test if dataset.test_noisy is None else dataset.test_noisy):
        names = {role: part.source_name(role) for role in part.names}
        table = part.table.rename_columns(list(names.values()))
        yield from _of_table(dataset, Opened.of_table(table, dataset.name), Columns(**names), rule, event_rule)


def _is_separate(labels: Any) -> bool:
    """Whether labels are a file or frame of their own, and no rule on the log or column of it."""
    if isinstance(labels, list | tuple):
        return any(map(_is_separate, labels))
    if not isinstance(labels, str):
        return labels is not None
    return LabelRule.parse(labels) is None and Path(labels).expanduser().is_file()


def columns_read(labels: Any, events: str | None) -> set[str]:
    """The simplified names of the columns of a log that labels may be read from."""
    names = []
    if isinstance(labels, list | tuple):
        return set().union(*(columns_read(one, None) for one in (*labels, None)), columns_read(None, events))
    if isinstance(labels, str):
        rule = LabelRule.parse(labels)
        names += [labels] if rule is None else rule.names
    if events is not None:
        column = EventRule.parse(events).column
        names += EVENT_NAMES.split() if column is None else [column]
    return {col.simplified(name) for name in names}


def _of_file(dataset: Dataset, labels: Any) -> Iterator[Labelled]:
    """A file or frame of user, item and label; the label may be called value where there is no header line."""
    opened = open_source(labels)
    candidates = [name for name in opened.names if col.simplified(name) in (*LIKE_NAMES.split(), "value")]
    label = min(candidates, key=lambda name: col.simplified(name) != "label", default=None)
    if label is None:
        raise InputError(f"{opened.label} has no column 'label'; name one so, with 1 for real and 0 for noise.")
    yield from _of_table(dataset, opened, Columns(), label, None)


def _of_table(
    dataset: Dataset,
    opened: Opened,
    given: Columns,
    rule: LabelRule | str | None,  # or the name of a column that holds labels
    event_rule: EventRule | None,
) -> Iterator[Labelled]:
    source = opened.label
    chosen = col.choose(source, opened.names, replace(given, weight=None, label=None)).names()
    rule_names = [] if rule is None else [rule] if isinstance(rule, str) else rule.names
    read_as = {
        one: chosen[one] if one not in opened.names and one in col.COLUMNS and one in chosen
        else require_column(source, one, opened.names, "labels")
        for one in rule_names
    }  # fmt: skip
    event = [] if event_rule is None else [event_rule.column_in(source, opened.names)]
    rows = 0
    rated: list[Floats] = []  # of each batch the columns that a rule names, and the labels
    ids = [chosen["user"], chosen["item"]]
    for batch in opened.batches(list(dict.fromkeys([*ids, *read_as.values(), *event])), ids):
        if not batch.num_rows:
            continue
        user = _rows(dataset.users, batch.column(chosen["user"]), opened.from_text)
        item = _rows(dataset.items, batch.column(chosen["item"]), opened.from_text)
        if rule is not None:
            values = {one: _numbers(source, column, batch.column(column), rows) for one, column in read_as.items()}
            labels = _checked(source, rule_names[0], values[rule] if isinstance(rule, str) else rule.labels(values))
            rated.append(np.stack([*values.values(), labels]))
            yield user, item, labels
        if event_rule is not None:
            yield user, item, event_rule.labels(source, event[0], batch.column(event[0]))
        rows += batch.num_rows
    if isinstance(rule, LabelRule) and rated:
        *columns, labels = np.concatenate(rated, axis=1)
        for name, column in zip(rule.names, columns, strict=True):
            rule.refuse_codes(name, column, labels)


def _rows(ids: IdMap, column: Any, from_text: bool) -> IntArray:
    return ids.rows(col.to_ids(col.decoded(column), from_text, ids.ids.type == pa.int64()))


def _numbers(source: str, name: str, column: Any, start: int) -> Floats:
    column = col.decoded(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_string(column.type):
        words = col.trimmed(pc.utf8_lower(column))
        if pc.all(pc.is_in(words.drop_null(), value_set=pa.array(["true", "false"]))).as_py():
            column = words.cast(pa.bool_()).cast(pa.uint8())
    try:
        numbers = col.values(source, name, column, start)
    except ColumnError as error:
        raise InputError(f"{error.problem}; correct it or give other labels.") from None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def _checked(source: str, name: str, labels: Floats) -> Floats:
    if len(bad := np.flatnonzero((labels < 0) | (labels > 1))):
        raise InputError(
            f"{source}: column '{name}' has {labels[bad[0]]:g}, which is not a label: labels go from 0 (noise) to 1 "
            f"(real); give a rule instead, like '{name}>{'0' if np.nanmax(labels) <= 1 else '=4'}'."
        )
    return labels


def has_label(source: Any) -> bool:
    """Whether a frame has a column `label` with numbers from 0 to 1."""
    if not hasattr(source, "__arrow_c_stream__") or isinstance(source, Interactions):
        return False
    table = frame(source)
    if "label" not in table.column_names:
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
    name = train.source_name("value") if train.has_value else None
    if name is not None:
        values = train.column("value")
        some = np.unique(values[:100_000])  # most logs are done with here
        if set(some) <= {0, 1} and set(np.unique(values)) == {0, 1}:
            share = f"column '{name}' is 0 in {np.mean(values == 0):.0%} of the training rows and 1 in the others"
            meaning = ", as labels are, but every row counts as an interaction; if 0 means noise, give "
            return [Note(share, meaning, Argument("labels", name), ".")]
        scale = np.unique(values[~np.isnan(values)])
        code, _ = code_in(scale)
        if code >= -1 and (rows := np.mean(values == code)) >= LEAST_SHARE:
            rated = scale[scale != code]
            least = rated[rated >= rated[0] + LIKED * (rated[-1] - rated[0])][0]
            share = f"column '{name}' is {code:g} in {rows:.0%} of the training rows; if that means not rated, give "
            return [Note(share, Argument("labels", f"{name}>={least:g}{UNKNOWN}{code:g}"), ".")]
        if set(scale) == {-1, 0, 1}:
            share = f"column '{name}' is -1, 0 or 1, as thumbs are, and every row counts as an interaction; give "
            return [Note(share, Argument("labels", f"{name}>0; {name}<0"), " if a row of 0 says nothing.")]
        if below := np.mean(values < 0):
            share = f"column '{name}' is below 0 in {below:.2%} of the training rows, which count as interactions"
            advice = " like all others; if these are no preferences, give "
            return [Note(share, advice, Argument("labels", f"{name}>=0"), ".")]
    if isinstance(source, Opened):
        likes = [one for one in source.names if col.simplified(one) in LIKE_NAMES.split()]
        if likes and likes[0] != name:
            give = Argument("labels", likes[0])
            rule = Argument("labels", f"{likes[0]}>0; {likes[0]}<0")
            seems = f"column '{likes[0]}' looks like a label; if it is one, give "
            return [Note(seems, give, ", or ", rule, " where it has numbers below 0.")]
    return []


def summary(dataset: Dataset) -> dict[str, Any]:
    """How many training interactions have a label, and of whom; empty: none has."""
    outside = np.zeros(0) if dataset.outside is None else dataset.outside.column("label")
    more = {"refused": int((outside < 0.5).sum()), "liked": int((outside >= 0.5).sum())} if len(outside) else {}
    if "label" not in dataset.train.names:
        return more
    train = dataset.csr(dataset.train, columns=("label",))
    label = train.columns["label"]
    has_label = ~np.isnan(label)
    if not has_label.any():
        return more
    users, items = train.users, train.items
    return {
        "labels": int(has_label.sum()),
        "interactions": len(label),
        "real": int((label == 1).sum()),
        "noise": int((label == 0).sum()),
        "between": int((has_label & (label > 0) & (label < 1)).sum()),
        "users": len(np.unique(users[has_label])),
        "items": len(np.unique(items[has_label])),
        "of_users": int((train.counts > 0).sum()),
        "of_items": int((train.popularity() > 0).sum()),
        **more,
    }


def described(counts: Mapping[str, Any]) -> list[str]:
    outside = []
    if "refused" in counts:
        outside.append(
            f"{counts['refused'] + counts['liked']:,} pairs outside the log have a label: {counts['refused']:,} "
            f"refused, which are never recommended, and {counts['liked']:,} liked."
        )
    if "labels" not in counts:
        return outside
    between = f", {counts['between']:,} between" if counts["between"] else ""
    return [
        f"{counts['labels']:,} of {counts['interactions']:,} training interactions have a label: {counts['real']:,} "
        f"real, {counts['noise']:,} noise{between}; they are of {counts['users']:,} of {counts['of_users']:,} users "
        f"and {counts['items']:,} of {counts['of_items']:,} items.",
        *outside,
    ]
