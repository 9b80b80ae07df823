from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data import interactions as module
from accord.data.csr import Csr
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.simulate import simulate

TABLE = pa.table(
    [["b", "a", "b", "c"], [7, -2, 7, 5], [1.0, None, 3.0, float("nan")]],
    schema=pa.schema(
        [
            pa.field("user", pa.string()),
            pa.field("item", pa.int64()),
            pa.field("value", pa.float64(), metadata={"source": "stars"}),
        ]
    ),
)


def test_the_table_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECODED_AT_ONCE", 3)  # so that ids come back in parts
    rows = Interactions(pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]))
    assert rows.table.schema.equals(TABLE.schema, check_metadata=True)
    assert repr(rows.table.to_pydict()) == repr(TABLE.to_pydict())  # nan and null apart
    assert rows.source_name("value") == "stars"
    assert rows.column("user").dtype == rows.column("item").dtype == np.int32
    assert rows.column("user").tolist() == [1, 0, 1, 2]
    assert rows.take([3, 0]).table.column("user").to_pylist() == ["c", "b"]
    assert rows.filter(np.array([False, True, False, True])).items.to_pylist() == [-2, 5]
    assert len(Interactions(TABLE.slice(0, 0)).table) == 0


def test_parts_share_the_id_maps() -> None:
    rows = Interactions(TABLE)
    some = rows.take([0, 2])
    assert some.user_ids is rows.user_ids
    data = Dataset.of("toy", rows.take([0, 1]), rows.take([2]), rows.take([3]))
    assert data.users is rows.user_ids  # every id occurs, so nothing is looked up
    fewer = Dataset.of("toy", some, some, some)
    assert (fewer.users.ids.to_pylist(), fewer.items.ids.to_pylist()) == (["b"], [7])
    assert [array.tolist() for array in fewer.rows(rows)] == [[0, -1, 0, -1], [0, -1, 0, -1]]
    other = Interactions.of(["d", "b"], [5, 9])
    mixed = Dataset.of("toy", rows, other, Interactions.of([3, 4], ["x", "7"]))  # of another type, too
    assert mixed.users.ids.to_pylist() == ["3", "4", "a", "b", "c", "d"]
    assert mixed.items.ids.to_pylist() == ["-2", "5", "7", "9", "x"]
    for part in (mixed.train, mixed.valid, mixed.test):
        users, items = mixed.rows(part)
        assert users.tolist() == mixed.users.rows(part.users).tolist()
        assert items.tolist() == mixed.items.rows(part.items).tolist()
    assert mixed.counts() == {"users": 6, "items": 5, "train": 4, "valid": 2, "test": 2}
    assert fewer.counts()["users"] == 1


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=40)


@settings(max_examples=100, deadline=None)
@given(ROWS, st.booleans())
def test_merging_keeps_the_latest_or_the_last(triples: list[tuple[int, int, int]], timed: bool) -> None:
    users, items, times = (pa.array([triple[place] for triple in triples], pa.int64()) for place in range(3))
    number = pa.array(range(len(triples)), pa.float64())
    rows = Interactions.of(users, items, number, times if timed else None)
    best: dict[tuple[int, int], int] = {}
    for row, (user, item, time) in enumerate(triples):
        if (user, item) not in best or not timed or time >= triples[best[user, item]][2]:
            best[user, item] = row
    assert rows.merged().column("value").tolist() == sorted(best.values())
    assert rows.merged(ordered=True).column("value").tolist() == [best[pair] for pair in sorted(best)]


def test_pairs_may_be_more_than_32_bits_count() -> None:
    users, items = np.array([99_999, 0], dtype=np.int32), np.array([99_999, 1], dtype=np.int32)
    csr = Csr.of(users, items, 100_000, 100_000)
    assert csr.keys.tolist() == [1, 99_999 * 100_000 + 99_999]
    numbers = np.arange(70_000)
    rows = Interactions.of(numbers[::-1], numbers)
    assert len(np.unique(rows.pair_keys())) == 70_000
    assert IdMap.range(70_000).rows(rows.users).tolist() == numbers[::-1].tolist()


def in_parts(train, valid, test):
    """A dataset of one user's items at these times."""
    parts, used = [], 0
    for times in (train, valid, test):
        items = np.arange(used, used + len(times))
        parts.append(Interactions.of(pa.array([1] * len(times)), pa.array(items), time=pa.array(times)))
        used += len(times)
    return Dataset.of("timed", *parts)


def test_parts_come_in_order_where_no_time_goes_back():
    assert in_parts([1, 2], [2, 3], [3]).comes_in_order
    assert not in_parts([1, 4], [2, 3], [5]).comes_in_order
    assert not in_parts([1, 2], [5], [4]).comes_in_order
    assert not in_parts([1, 5], [6], [4]).comes_in_order
    assert not in_parts([2, 2], [2], [2]).comes_in_order, "one moment for all is no order"
    whole = in_parts([1, 2], [3], [4])
    none = whole.valid.slice(0, 0)
    assert not replace(whole, valid=none).comes_in_order
    bare = Interactions(whole.valid.table.select(["user", "item"]))
    assert not replace(whole, valid=bare).comes_in_order


def test_a_validation_before_the_test_is_training_data():
    whole = in_parts([1, 2], [3], [4])
    joined = whole.before_test(whole.valid)
    assert joined.train.column("time").tolist() == [1, 2, 3]
    assert len(joined.valid) == 0
    assert joined.test is whole.test


def test_everything_is_the_log_with_the_noise_of_its_test():
    data = simulate(users=50, items=40, interactions=500, liked=0.4).dataset
    assert data.test_noisy is not None
    assert len(data.everything().train) == len(data.train) + len(data.valid) + len(data.test_noisy)
    assert len(data.test_noisy) > len(data.test)


def test_it_shows_what_it_is():
    rows = Interactions.of(pa.array(["a", "b"]), pa.array(["x", "y"]), time=pa.array([1, 2]))
    assert repr(rows) == "Interactions(2 rows of user, item, time)"
    data = Dataset.of("clicks", rows, rows.slice(0, 0), rows.slice(0, 1))
    assert repr(data) == "Dataset(clicks: 2 users, 2 items, 2 train, 0 valid, 1 test)"
