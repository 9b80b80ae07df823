from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.auditing.health import health
from accord.auditing.interaction_log import open_log
from accord.data import split as module
from accord.data.interactions import Dataset, Interactions
from accord.data.rules import CleanRule
from accord.data.split import KINDS, split
from accord.errors import InputError


def sample(rng: np.random.Generator, users: int = 30, items: int = 40, size: int = 500) -> Interactions:
    keys = rng.permutation(users * items)[:size]
    names = pa.array([f"u{number}" for number in range(users)])
    return Interactions.of(
        names.take(pa.array(keys // items)),
        keys % items,
        rng.integers(1, 6, size).astype(float),
        rng.integers(0, 50, size),
    )


def as_sets(dataset: Dataset) -> list[set[tuple[object, ...]]]:
    parts = (dataset.train, dataset.valid, dataset.test)
    return [set(zip(*(column.to_pylist() for column in part.table.columns), strict=True)) for part in parts]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_parts_are_disjoint_whole_and_free_of_row_order(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = sample(rng)
    shuffled = data.take(rng.permutation(len(data)))
    first, second = (as_sets(split(rows, kind, seed=seed)) for rows in (data, shuffled))
    assert first == second
    assert sum(map(len, first)) == len(set.union(*first)) == len(data)


def test_random_sizes_and_seeds() -> None:
    data = sample(np.random.default_rng(0))
    dataset = split(data, "random", (0.7, 0.1, 0.2), seed=1)
    assert [len(part) for part in (dataset.train, dataset.valid, dataset.test)] == [350, 50, 100]
    assert as_sets(dataset) != as_sets(split(data, "random", (0.7, 0.1, 0.2), seed=2))


def test_chronological_keeps_time_order_per_user() -> None:
    dataset = split(sample(np.random.default_rng(0)), "chronological")
    per_user = []
    for part in (dataset.train, dataset.valid, dataset.test):
        users, times = dataset.users.rows(part.users), part.column("time")
        per_user.append({user: times[users == user] for user in np.unique(users)})
    train, valid, test = per_user
    assert all(train[user].max() <= valid[user].min() for user in valid)
    assert all(valid[user].max() <= test[user].min() for user in test)
    counts = {user: len(train[user]) + len(valid.get(user, [])) + len(test.get(user, [])) for user in train}
    assert all(len(test.get(user, [])) == int(count * 0.1 + 0.5) for user, count in counts.items())


def test_leave_last_out() -> None:
    users = ["a"] * 4 + ["b"] * 2 + ["c"] * 3
    data = Interactions.of(users, [1, 2, 3, 4, 1, 2, 1, 2, 3], time=[4, 3, 2, 1, 1, 2, 1, 2, 3])
    train, valid, test = as_sets(split(data, "leave-last-out"))
    assert {row[:2] for row in test} == {("a", 1), ("c", 3)}
    assert {row[:2] for row in valid} == {("a", 2), ("c", 2)}
    assert {row[:2] for row in train} == {("a", 3), ("a", 4), ("b", 1), ("b", 2), ("c", 1)}


def one_user_after_another(data: Interactions) -> Interactions:
    return data.with_column("time", pa.array(data.column("user") * 1000.0 + data.column("item")))


def test_auto_goes_by_the_time_column() -> None:
    data = sample(np.random.default_rng(0))
    assert as_sets(split(data)) == as_sets(split(data, "global-time")), "all users are there all the time"
    in_turn = one_user_after_another(data)
    assert as_sets(split(in_turn)) == as_sets(split(in_turn, "chronological")), "whoever comes later is new"
    timeless = Interactions(data.table.drop_columns(["time"]))
    assert as_sets(split(timeless)) == as_sets(split(timeless, "random"))
    assert "split random" in split(timeless).notes[0]
    for kind in ("chronological", "leave-last-out"):
        with pytest.raises(InputError, match=f"split {kind} needs a time column"):
            split(timeless, kind)


def test_the_clean_rule_filters_test_and_valid() -> None:
    dataset = split(sample(np.random.default_rng(0)), "random", clean="value>=4 and value<5")
    assert dataset.test_noisy is not None
    assert dataset.valid_clean is not None
    assert set(dataset.test.column("value")) == {4.0} == set(dataset.valid_clean.column("value"))
    assert len(dataset.test) == int((dataset.test_noisy.column("value") == 4).sum())
    assert any("keeps" in note for note in dataset.notes)


@pytest.mark.parametrize(
    "ratios", [(0.8, 0.2), (0.8, 0.1, 0.2), (0.0, 0.5, 0.5), (1.1, -0.2, 0.1), (float("nan"), 0.1, 0.1)]
)
def test_bad_ratios(ratios: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="must be three shares"):
        split(sample(np.random.default_rng(0)), "random", ratios)


@pytest.mark.parametrize("kind", ["random", "chronological", "global-time"])
@pytest.mark.parametrize("ratios", [(1, 0, 0), (0.8, 0, 0.2), (0.8, 0.2, 0)])
def test_parts_that_are_not_wanted_are_empty(kind: str, ratios: tuple[float, ...]) -> None:
    data = sample(np.random.default_rng(0))
    dataset = split(data, kind, ratios, clean="value>=4")
    sizes = [len(dataset.train), len(dataset.valid), len(dataset.test if not ratios[2] else dataset.test_noisy)]  # type: ignore[arg-type]
    assert sum(sizes) == len(data.merged())
    assert [size > 0 for size in sizes] == [share > 0 for share in ratios]
    missing = " and no ".join(part for part, share in (("validation", ratios[1]), ("test", ratios[2])) if not share)
    assert any(f"the split has no {missing}:" in note for note in dataset.notes)
    assert health(open_log(dataset))["findings"]
    assert len(dataset.csr(dataset.test).items) == len(dataset.test)


def test_one_moment_for_everybody() -> None:
    data = sample(np.random.default_rng(0)).merged()
    dataset = split(data, "global-time", (0.7, 0.1, 0.2))
    train, valid, test = (part.column("time") for part in (dataset.train, dataset.valid, dataset.test))
    assert train.max() < valid.min() <= valid.max() < test.min()
    assert abs(len(test) - 0.2 * len(data)) <= np.bincount(data.column("time")).max()
    assert as_sets(split(data, "global-time", (0.7, 0.1, 0.2), seed=5)) == as_sets(dataset)
    assert any(note.startswith("split by time: validation from ") for note in dataset.notes)
    cut = int(np.median(data.column("time")))
    named = split(data, f"global-time:{cut}", (0.5, 0.5, 0))
    assert set(named.test.column("time")) == {time for time in data.column("time") if time >= cut}
    assert named.valid.column("time").max() < cut
    assert abs(len(named.valid) - len(named.train)) <= 2 * np.bincount(data.column("time")).max()


def test_a_moment_is_a_date() -> None:
    days = [1609459200 + 86400 * day for day in range(10)]
    data = Interactions.of([1, 2] * 5, list(range(5)) * 2, time=days)
    dataset = split(data, "global-time:2021-01-09", (0.9, 0.1, 0))
    assert dataset.test.column("time").tolist() == days[8:]
    assert "split by time: validation from 2021-01-08 00:00:00, test from 2021-01-09 00:00:00 on" in dataset.notes[0]
    with pytest.raises(InputError, match="give a moment like global-time:2021-06-01"):
        split(data, "global-time:soon")
    with pytest.raises(InputError, match="leaves the train part of 10 interactions empty; give another moment"):
        split(data, "global-time:2020-01-01")
    with pytest.raises(InputError, match="unknown split 'random:2020-01-01'"):
        split(data, "random:2020-01-01")
    with pytest.raises(InputError, match="needs a time column"):
        split(Interactions.of([1, 2], [1, 2]), "global-time")


def test_a_seed_below_zero() -> None:
    with pytest.raises(InputError, match="the seed of the split is -1; give 0 or more"):
        split(sample(np.random.default_rng(0)), "random", seed=-1)


def test_few_rows_are_told_what_to_do() -> None:
    data = sample(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"give more data, or ratios=\(1, 0, 0\) to train on everything"):
        split(data.take([0, 1, 2]), "random")
    with pytest.raises(InputError, match=r"give more data, or ratios=\(1, 0, 0\) to train on everything"):
        split(data.take([0, 1, 2]), "leave-last-out")
    each = Interactions.of(range(20), range(20), time=range(20))
    with pytest.raises(InputError, match="users have too few interactions each; use split='random' or global-time"):
        split(each, "chronological")


def test_what_cannot_be_split() -> None:
    data = sample(np.random.default_rng(0))
    with pytest.raises(InputError, match="unknown split 'randm'; did you mean 'random'"):
        split(data, "randm")
    with pytest.raises(InputError, match="valid part of 3 interactions empty"):
        split(data.take([0, 1, 2]), "random")
    with pytest.raises(InputError, match="no test interaction meets the clean rule 'value>9'"):
        split(data, clean="value>9")


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("value>=5", (("value", ">=", "5"),)),
        ("play time=5", (("play time", "==", "5"),)),
        (" dwell > 10.5 ", (("dwell", ">", "10.5"),)),
        ("a_b!=-1e3", (("a_b", "!=", "-1e3"),)),
        ("value>=4 and value<=5, time<.5", (("value", ">=", "4"), ("value", "<=", "5"), ("time", "<", ".5"))),
        ("android==1 and x<2", (("android", "==", "1"), ("x", "<", "2"))),
    ],
)
def test_rules(text: str, conditions: tuple[tuple[str, str, str], ...]) -> None:
    assert CleanRule.parse(text).real == conditions


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ""),
        ("value", "value"),
        ("value=>5", "value=>5"),
        ("5<value", "5<value"),
        ("value>5 or value<2", "value>5 or value<2"),
        ("value>5 and", ""),
        ("value>5,,x>1", ""),
        ("value>__import__('os')", "value>__import__('os')"),
        ("value>5 and dwell>nan", " dwell>nan"),
    ],
)
def test_bad_rules_name_the_part_that_is_wrong(text: str, part: str) -> None:
    with pytest.raises(InputError, match=re.escape(f": {part!r} is not NAME OP NUMBER; write it like 'value>=5' or")):
        CleanRule.parse(text)


def test_rules_know_the_columns_own_names() -> None:
    value = pa.field("value", pa.float64(), metadata={"source": "dwell"})
    fields = pa.schema([pa.field("user", pa.int64()), pa.field("item", pa.int64()), value])
    data = Interactions(pa.table([[1, 2, 3], [1, 2, 3], [5.0, 20.0, None]], schema=fields))
    assert CleanRule.parse("dwell>10").mask(data).tolist() == [False, True, False]
    assert CleanRule.parse("value!=5").mask(data).tolist() == [False, True, False]
    with pytest.raises(InputError, match=r"names 'rating', but the data has value \('dwell'\)"):
        CleanRule.parse("rating>3").mask(data)
    with pytest.raises(InputError, match="the data has neither"):
        CleanRule.parse("value>3").mask(Interactions(data.table.select(["user", "item"])))


@pytest.mark.parametrize("ratios", [(0.2, 0.4, 0.4), (0.1, 0.45, 0.45), (0.34, 0.33, 0.33)])
def test_everybody_keeps_something_to_learn_from(ratios: tuple[float, float, float]) -> None:
    """Users with one to six interactions, and most of them held out: none is left without a training interaction."""
    users = np.repeat(np.arange(6), np.arange(1, 7))
    items = np.concatenate([(5 * np.arange(count) + count) % 7 for count in range(1, 7)])
    dataset = split(Interactions.of(users, items, None, np.arange(len(users))), "chronological", ratios)
    assert set(dataset.train.users.to_pylist()) == set(range(6))


def of_users(counts: list[int], **more: Any) -> Interactions:
    """Users 0, 1, … with so many interactions each, whose times rise by 1; items rise, then fall, and so on."""
    users = np.repeat(np.arange(len(counts)), counts)
    items = np.concatenate([np.arange(count)[:: (-1) ** user] for user, count in enumerate(counts)])
    return Interactions.of(users, items, more.get("value"), np.arange(len(users)))


def sizes(dataset: Dataset) -> list[list[int]]:
    """Of each user: interactions in train, valid and test."""
    parts = (dataset.train, dataset.valid, dataset.test)
    return np.stack([np.bincount(part.column("user"), minlength=len(dataset.users)) for part in parts], 1).tolist()


SHORT = "; give more data, or ratios=(1, 0, 0) to train on everything and evaluate nothing."
SHARES = (
    "must be three shares for train, valid and test that sum to 1, like 0.8, 0.1, 0.1; only valid and test may be 0."
)


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda data: split(data, clean="stars>3"),
         "clean rule 'stars>3' names 'stars', but the data has value ('value'), time ('time');"
         " give columns=Columns(value=…) or columns=Columns(time=…), or change the rule."),
        (lambda data: split(data, ratios=(0.8, 0.2)), f"split ratios (0.8, 0.2) {SHARES}"),
        (lambda data: split(data, ratios="8,1,1"), f"split ratios (8,1,1) {SHARES}"),  # type: ignore[arg-type]
        (lambda data: split(data, "global-time:soon"),
         "split 'global-time:soon': give a moment like global-time:2021-06-01."),
        (lambda data: split(data.take([0, 1, 2]), "random"),
         f"data: split random leaves the valid part of 3 interactions empty{SHORT}"),
        (lambda data: split(data, "random", (0.9995, 0.0005, 0), name="log"),
         f"log: split random leaves the valid part of 500 interactions empty{SHORT}"),
        (lambda data: split(data, "random", (0.9995, 0, 0.0005), name="log"),
         f"log: split random leaves the test part of 500 interactions empty{SHORT}"),
        (lambda data: split(of_users([2] * 20), "leave-last-out", (1, 0, 0)),
         "data: split leave-last-out leaves the valid part of 40 interactions empty: users have too few interactions"
         " each; use split='random' or global-time, or other ratios."),
        (lambda data: split(of_users([1] * 20), "global-time:1", (0.9, 0.1, 0)),
         "data: split global-time:1 leaves the train part of 20 interactions empty; give another moment or other"
         " ratios=."),
        (lambda data: split(Interactions.of(range(20), range(20)), "random", name="log"),
         "log: no item of the test occurs in training; check that both use the same item ids."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_full(work: Callable[[Interactions], object], said: str) -> None:
    data = sample(np.random.default_rng(0))
    with pytest.raises(InputError) as told:
        work(data)
    assert str(told.value) == said


def test_notes_say_what_was_split_how() -> None:
    data = sample(np.random.default_rng(0)).merged()
    why = "the data has times, and 100% of later interactions are of users seen before"
    assert split(data).notes[0] == f"split global-time ({why})."
    assert split(one_user_after_another(data)).notes[0] == "split chronological (the data has times)."
    timeless = Interactions(data.table.drop_columns(["time"]))
    assert split(timeless).notes[0] == "split random (no column was read as times)."
    at_once = Interactions.of(timeless.users, timeless.items, time=np.full(len(data), 1_600_000_000))
    assert split(at_once).notes[0] == "split random (all times are the same)."
    assert as_sets(split(at_once)) == as_sets(split(at_once, "random"))
    assert "all times are the same: what comes last is drawn at random." in split(at_once, "chronological").notes
    assert split(at_once, "global-time", (1, 0, 0)).notes[-1].endswith("nothing is evaluated.")
    with pytest.raises(InputError, match=r"^data: all times are the same, so that no moment parts them; use split='ra"):
        split(at_once, "global-time")
    assert split(data, "random", (0.8, 0, 0.2)).notes == ("the split has no validation: training cannot stop early.",)
    assert split(data, "random", (0.8, 0.2, 0)).notes == ("the split has no test: nothing is evaluated.",)
    nothing = ("the split has no validation and no test: nothing is evaluated.",)
    assert split(data, "global-time", (1, 0, 0)).notes == nothing
    assert split(data).name == "data"
    assert split(data, name="log").name == "log"
    assert as_sets(split(data, "random")) == as_sets(split(data, "random", seed=0))
    assert as_sets(split(data, "random")) != as_sets(split(data, "random", seed=1))
    assert len(split(data, "random", (0.8, 0.1, 0.1000005)).test) == 50  # shares are fractions, which add up nearly


def test_what_training_does_not_know_is_counted() -> None:
    known = [(user, item) for user in range(4) for item in range(3)]
    parts = [known, [(0, 5)], [(7, 0), (7, 1), (8, 2), (1, 9), (0, 1)]]

    def cut(*_: Any) -> list[Interactions]:
        return [Interactions.of(*zip(*part, strict=True)) for part in parts]

    parts[2] = [(7, 0), (7, 1), (8, 2), (1, 9), (2, 9)]
    assert split(Interactions.of([1], [1]), "random", cut=cut).notes == (
        "2 test users (3 of 5 test interactions) do not occur in training.",
        "1 test items (2 of 5 test interactions) do not occur in training.",
    )
    parts[2] = [(7, 0), (8, 1)]
    assert split(Interactions.of([1], [1]), "random", cut=cut).notes == (
        "2 test users (2 of 2 test interactions) do not occur in training.",
    )


def test_a_validation_of_which_nothing_is_clean_is_none() -> None:
    data = of_users([10, 10, 20], value=[*[1.0] * 9, 5.0, *[1.0] * 9, 5.0, *[1.0] * 19, 5.0])
    dataset = split(data, "leave-last-out", clean="value>=5")
    assert dataset.valid_clean is None
    assert len(dataset.test) == 3


def test_a_moment_is_told_in_universal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Interactions.of([1, 2] * 5, list(range(5)) * 2, time=[1609459200 + 86400 * day for day in range(10)])
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        note = split(data, "global-time", (0.8, 0.1, 0.1)).notes[0]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert note == (
        "split by time: validation from 2021-01-09 00:00:00, test from 2021-01-10 00:00:00 on;"
        " training has what came before."
    )


@pytest.mark.parametrize(
    ("kind", "ratios", "parts"),
    [
        ("global-time", (0.7, 0.1, 0.2), [70, 10, 20]),
        ("global-time", (0.95, 0.046, 0.004), [94, 5, 1]),  # there is always one to test on
        ("global-time:90", (0.6, 0.3, 0.1), [60, 30, 10]),  # of what came before, in these shares
    ],
)
def test_shares_of_a_split_by_time(kind: str, ratios: tuple[float, ...], parts: list[int]) -> None:
    dataset = split(of_users([50, 50]), kind, ratios)
    assert [len(dataset.train), len(dataset.valid), len(dataset.test)] == parts


def test_shares_of_each_user() -> None:
    """Whoever has few interactions keeps one to learn from; the last user too, who has a single one."""
    counts = [3, 2, 10, 100, 1]
    assert sizes(split(of_users(counts), "chronological", (0.05, 0.05, 0.9))) == [
        [1, 0, 2], [1, 0, 1], [1, 0, 9], [5, 5, 90], [1, 0, 0],
    ]  # fmt: skip
    assert sizes(split(of_users(counts), "chronological", (0.05, 0.9, 0.05))) == [
        [1, 2, 0], [1, 1, 0], [1, 8, 1], [5, 90, 5], [1, 0, 0],
    ]  # fmt: skip


def test_blocks_of_users_give_what_all_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sample(np.random.default_rng(0))
    whole = as_sets(split(data, "chronological"))
    for size in (1, 7, 100):
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", size)
        assert as_sets(split(data, "chronological")) == whole


@pytest.mark.parametrize(
    ("kind", "most"), [("random", 6), ("global-time", 11), ("chronological", 32), ("leave-last-out", 32)]
)
def test_a_split_takes_few_bytes_a_row(kind: str, most: int) -> None:
    """The part of a row is one byte and its place in a random order four; sorting takes the rest."""
    size = 400_000
    rows = Interactions.of(np.arange(size) // 400, np.arange(size), time=np.arange(size) % 977)
    assert len(rows.column("user")) == len(rows.column("time")) == size
    tracemalloc.start()
    part = module.assigned(rows, kind, (0.8, 0.1, 0.1), 0)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert part.dtype == np.int8
    assert taken < most * size
