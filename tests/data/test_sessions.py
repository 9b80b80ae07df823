"""Sessions that are made of users by their times."""

from __future__ import annotations

import pyarrow as pa
import pytest

from accord.data.load import load
from accord.data.sessions import seconds_of
from accord.errors import InputError

LOG = {
    "user": ["bo", "ann", "ann", "bo", "ann", "ann"],
    "item": ["x", "x", "y", "y", "x", "z"],
    "time": [900_000_000, 900_001_802, 900_000_000, 900_000_060, 900_000_001, 900_003_602],
}
EVERYTHING = {"ratios": (1, 0, 0), "split": "random", "session_gap": "30m"}


@pytest.mark.parametrize("unit", [1, 1000])
def test_a_long_pause_begins_another_session(unit):
    times = [time * unit for time in LOG["time"]]
    data = load(pa.table({**LOG, "time": times}), **EVERYTHING)
    rows = sorted(zip(data.train.users.to_pylist(), data.train.items.to_pylist(), strict=True))
    first, second = [("ann/1", "x"), ("ann/1", "y")], [("ann/2", "x"), ("ann/2", "z")]
    assert rows == [*first, *second, ("bo/1", "x"), ("bo/1", "y")], "1,800 s are no longer than 30 minutes"
    assert any("3 sessions of 2 users, 0 with one interaction" in note for note in data.notes)


@pytest.mark.parametrize(
    ("source", "more", "sentence"),
    [
        ({**LOG, "time": [9e8 + 1e4 * n for n in range(6)]}, {}, "each of the 6 sessions has one interaction only"),
        ({name: LOG[name] for name in ("user", "item")}, {}, "sessions are made from times, and the log has none"),
        (LOG, {"session_gap": "30"}, "write it as 30m, 2h or 1d"),
        (LOG, {"session_gap": "0m"}, "write it as 30m, 2h or 1d"),
        (LOG, {"labels": "time>=1"}, "labels are of users"),
    ],
)
def test_what_no_sessions_can_be_made_of_is_said(source, more, sentence):
    with pytest.raises(InputError, match=sentence):
        load(pa.table(source), **EVERYTHING | more)


def test_data_that_is_split_has_its_users():
    with pytest.raises(InputError, match="already split"):
        load("demo", session_gap="30m")


def test_a_gap_is_a_number_and_a_unit():
    assert [seconds_of(gap) for gap in ("90s", "1.5h", " 2d ")] == [90, 5400, 172_800]
