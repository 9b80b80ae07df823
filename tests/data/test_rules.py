"""Rules on columns and kinds of events: what they say of a row, and what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.data.rules import EventRule, LabelRule
from accord.errors import InputError

NAN = np.nan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rating>=4", [1, 0, 0, NAN]),
        ("rating=5", [1, 0, 0, NAN]),
        ("rating>=4; rating<=2", [1, NAN, 0, NAN]),
        ("rating>=4 and dwell>10", [NAN, 0, 0, NAN]),
        ("rating>=4, dwell>10", [NAN, 0, 0, NAN]),
        ("dwell<10", [NAN, 1, 1, 0]),
    ],
)
def test_an_empty_column_says_nothing(text, expected):
    rule = LabelRule.parse(text)
    columns = {"rating": np.array([5, 3, 1, NAN]), "dwell": np.array([NAN, 2, 3, 20])}
    np.testing.assert_array_equal(rule.labels(columns), expected)


def test_what_is_no_rule_may_be_a_name():
    assert LabelRule.parse("liked") is None
    assert LabelRule.parse("labels.csv") is None


@pytest.mark.parametrize("text", ["rating>=", ">4", "rating>=4; rating<=2; rating==3"])
def test_a_broken_rule_is_refused(text):
    with pytest.raises(InputError, match="write a rule like"):
        LabelRule.parse(text)


def test_a_rule_on_words_is_pointed_to_events():
    with pytest.raises(InputError, match="a rule compares numbers; for a column of words give events='buy=1'"):
        LabelRule.parse("event=buy; event=view")


def test_kinds_of_events_say_what_they_are_given():
    events = EventRule.parse("view=?, cart=0.7,buy=1")
    assert events.column_in("log", ["user", "item", "event_type"]) == "event_type"
    found = events.labels("log", "event_type", pa.array(["buy", "view", None, "cart"]))
    np.testing.assert_array_equal(found, [1, NAN, NAN, 0.7])


def test_the_column_of_events_can_be_named():
    events = EventRule.parse("what:click=0,order=1")
    assert events.column_in("log", ["user", "item", "type", "what"]) == "what"
    with pytest.raises(InputError, match="'what'"):
        events.column_in("log", ["user", "item", "type"])


@pytest.mark.parametrize(("names", "said"), [([], "none"), (["event", "action"], "'event' and 'action'")])
def test_no_usual_column_or_two_of_them_are_refused(names, said):
    names = ["user", "item", *names]
    with pytest.raises(InputError, match=f"it has {said}; name the column before a colon"):
        EventRule.parse("view=?,buy=1").column_in("log", names)


@pytest.mark.parametrize("text", ["view", "view=", "view=2", "=1", "view=yes", "view=?,"])
def test_broken_events_are_refused(text):
    with pytest.raises(
        InputError, match=r"is not KIND=LABEL; write it like '.*', with labels from 0 \(noise\) to 1 \(real\)"
    ):
        EventRule.parse(text)


def test_a_kind_that_nobody_named_is_refused():
    with pytest.raises(InputError, match=r"kind 'rent'.*rent=\?"):
        EventRule.parse("view=?,buy=1").labels("log", "event", pa.array(["view", "rent"]))
