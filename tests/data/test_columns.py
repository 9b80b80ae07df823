"""Which column is which, and what its cells become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accord.data.columns import (
    BATCHED,
    COLUMNS,
    ROLES,
    SAVED,
    Columns,
    are_integers,
    choose,
    describe,
    values,
)
from accord.data.read import read_table
from accord.data.times import times
from accord.errors import InputError
from logs import rows, write


def test_the_guess_is_said_and_can_be_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "visitorid,itemid,shop,timestamp\n1,2,7,10\n2,3,8,20\n")
    _, notes = read_table(path)
    assert "user column 'visitorid', item column 'itemid', value column none, time column 'timestamp'" in notes[0]
    interactions, _ = read_table(path, Columns(item="shop", value="itemid"))
    assert rows(interactions) == [(1, 7, 2.0, 10), (2, 8, 3.0, 20)]
    assert interactions.source_name("value") == "itemid"


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            "user,user_id,item\n1,2,3\n",
            None,
            "'user' and 'user_id' could each be the user column; rename all but the right one, or give",
        ),
        ("who,what\na,b\n", None, "no user column among 'who', 'what'; call it 'user' or give columns=Columns(user=…)"),
        (
            "user,what\na,b\n",
            None,
            "no item column among 'user', 'what'; call it 'item' or give columns=Columns",
        ),
        ("user,item\na,b\n", Columns(user="usr"), "no column 'usr' (did you mean 'user'?)"),
        ("user,item\na,b\n", Columns(user="item", item="item"), "the same column was given for two roles"),
        ("user,item,item\na,b,c\n", Columns(item="item"), "2 columns are named 'item'; rename"),
        ("user,item,item\na,b,c\n", None, "2 columns are named 'item'; rename"),
        ("user,item\na,x\nNaN,y\nNone,x\nnull,x\n", None, "3 rows have no user id in column 'user' (first: row 2)"),
        (
            "user;item;value\na;x;3,500\nb;y;1\n",
            Columns(value="value"),
            "'3,500' in row 1, which is not a number: write",
        ),
        ("user;item;value\na;x;3,5\nb;y;1.5\n", Columns(value="value"), "has '3,5' in row 1, which is not a number"),
        ("", None, "is empty"),
        ("\n\n", None, "is empty"),
        ("user,item\n", None, "is empty"),
        ("user\na\n", None, "one column only"),
        ("1,2,3,4,5\n", None, "5 columns and no header line"),
        ("user,item\na,x\na,y\n", None, "only one user ('a') in column 'user'"),
        ("user,item\n1,x\n2,x\n", None, "only one item ('x') in column 'item'"),
        ("user,item\na,x\n,y\nb,\n", None, "1 row has no user id in column 'user' (first: row 2)"),
        ("user,item\n1,x\n2,y\nnan,y\nNULL,x\n", None, "2 rows have no user id in column 'user' (first: row 3)"),
        ("user,item,value\na,x,1\nb,y\n", None, "cannot be read "),
        ("user,item,value\na,x,1\nb,y,much\n", Columns(value="value"), "has 'much' in row 2, which is not a number"),
        (
            "user,item,time\na,x,1\nb,y,soon\n",
            Columns(time="time"),
            "has 'soon' in row 2, which is neither a number nor",
        ),
        ("user,item,time\na,x,2020-01-01\nb,y,soon\n", Columns(time="time"), "has 'soon' in row 2"),
        ("user,item,time\na,x,1\nb,y,\n", Columns(time="time"), "is empty in row 2"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, text: str, columns: Columns | None, message: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(InputError) as caught:
        read_table(path, columns)
    assert message in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1970-01-02", "1970-01-03 00:00:01", [86400, 172801]),
        ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z", [10, 20]),
        ("1970-01-01 00:00:00.5", "1970-01-01 00:00:01", [0.5, 1.0]),
        ("881250949", "881250950", [881250949, 881250950]),
        ("1.5", "2", [1.5, 2.0]),
    ],
)
def test_times(tmp_path: Path, first: str, second: str, expected: list[float]) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", f"user,item,date\na,x,{first}\nb,y,{second}\n"))
    assert interactions.column("time").tolist() == expected


def test_ids_keep_their_type(tmp_path: Path) -> None:
    interactions, _ = read_table(write(tmp_path / "a.csv", "user,item\n007,1\n7,-2\n"))
    assert interactions.users.to_pylist() == ["007", "7"]  # as integers they would be one user
    assert interactions.items.to_pylist() == [1, -2]
    typed, _ = read_table(pa.table({"user": ["1", "2"], "item": pa.array([1, 2], pa.uint8())}))
    assert typed.table.schema.types == [pa.string(), pa.int64()]


def test_twelve_is_one_person_however_it_is_written(tmp_path: Path) -> None:
    found, notes = read_table(write(tmp_path / "a.csv", "user,item\n12,x\n12.0,y\n-3.00,y\n"))
    assert found.users.to_pylist() == [12, 12, -3]
    assert any("user ids like '12.0' in column 'user' were read as whole numbers" in note for note in notes)
    apart, notes = read_table(write(tmp_path / "b.csv", "user,item\n12,x\n12.0,y\nann,y\n1.5,z\n"))
    assert apart.users.to_pylist() == ["12", "12.0", "ann", "1.5"]  # text: the check names them
    assert not any("whole numbers" in note for note in notes)


def test_a_name_like_nothing_is_a_name(tmp_path: Path) -> None:
    found, _ = read_table(write(tmp_path / "a.csv", "user,item\nNan,x\nNA,y\nnull0,y\n"))
    assert found.users.to_pylist() == ["Nan", "NA", "null0"]


def test_commas_in_numbers_are_named(tmp_path: Path) -> None:
    log = write(tmp_path / "a.csv", "user;item;rating\na;x;2\nb;y;3,5\n")
    found, notes = read_table(log)
    assert not found.has_value
    assert any("has '3,5' in row 2, which is not a number: write it without a comma" in note for note in notes)
    with pytest.raises(InputError, match="write it without a comma"):
        read_table(log, Columns(value="rating"))


def test_durations_are_values_in_seconds() -> None:
    table = pa.table({"user": [1, 2], "item": [1, 2], "dwell": pa.array([1500, 2**62], pa.duration("ms"))})
    assert read_table(table)[0].column("value").tolist() == [1.5, 2**62 / 1000]


@pytest.mark.parametrize("name", ["Hours", "play_time", "Listen Count"])
def test_less_usual_names_of_values(name: str) -> None:
    assert choose("log", ["user", "item", name], Columns()).value == name
    assert choose("log", ["user", "item", name, "rating"], Columns()).value == "rating"
    either = choose("log", ["user", "item", "hours", "clicks"], Columns())
    assert either.value is None  # neither is clear, and neither is needed
    assert choose("log", ["visit_id", "item"], Columns()).user == "visit_id"
    assert choose("log", ["session", "user", "item"], Columns()).user == "user"


def test_columns_that_are_not_used_are_named_once() -> None:
    chosen = choose("log", ["user", "item", "shop", "page"], Columns())
    assert describe(chosen, ["user", "item", "shop", "page"]).endswith("; not used: 'shop', 'page'.")
    assert describe(chosen, ["user", "item"]).endswith("time column none.")


FOUND = ["Visitor ID", "itemid", "dwell", "stars"]


def test_what_was_given_comes_before_the_clean_rule_and_that_before_the_usual_names() -> None:
    assert choose("log", FOUND[:3], Columns()) == Columns("Visitor ID", "itemid", "dwell")
    assert choose("log", FOUND[:3], Columns(value="itemid", item="dwell")) == Columns("Visitor ID", "dwell", "itemid")
    named = choose("log", ["user", "item", "rating", "seconds"], Columns(), ["seconds"])
    assert named.value == "seconds"
    given = choose("log", ["user", "item", "rating", "seconds"], Columns(value="rating"), ["seconds"])
    assert given.value == "rating"
    with pytest.raises(InputError, match="'dwell' and 'stars' could each be the value column"):
        choose("log", FOUND, Columns())


def test_many_columns_are_not_all_listed() -> None:
    names = [f"c{number}" for number in range(60)]
    with pytest.raises(InputError, match=r"no user column among 'c0', .*'c49', …; call it 'user' or give "):
        choose("log", names, Columns())


@pytest.mark.parametrize(
    ("column", "from_text", "whole"),
    [
        (["1", "-7", "0"], True, True),
        (["1", "nan", ""], True, True),  # gaps among integers
        (["", "none"], True, None),
        (["12", "12.0", "0.0"], True, True),
        (["12.5", "12.0"], True, False),
        (["007.0"], True, False),
        (["007", "1"], True, False),  # 007 is not how 7 is written
        ([1.0, float("nan"), 3.0], False, True),
        ([1.5, 2.0], False, False),
        (["1", "2"], False, False),  # a typed column keeps its type
    ],
)
def test_ids_are_integers_where_every_one_is(column: list[Any], from_text: bool, whole: bool | None) -> None:
    assert are_integers(pa.array(column), from_text) is whole


def test_numbers_by_hand() -> None:
    found = values("log", "stars", pa.array([" 1.5", "2", ""]))
    assert found.to_pylist() == [1.5, 2.0, None]
    with pytest.raises(InputError, match="value column 'stars' has 'x' in row 12, which is not a number"):
        values("log", "stars", pa.array(["1", "x"]), start=10)
    seconds, kinds = times("log", "date", pa.array(["1970-01-02", "1970-01-03"]))
    assert seconds.to_pylist() == [86_400, 172_800]
    assert kinds == (pa.timestamp("us"),)
    with pytest.raises(InputError, match="time column 'date' has inf in row 1"):
        times("log", "date", pa.array([float("inf")]))


def test_columns_may_be_a_mapping():
    assert Columns.of({"user": "who", "time": "when"}) == Columns(user="who", time="when")
    assert Columns.of(None) is None
    assert Columns.of(Columns(item="what")) == Columns(item="what")
    with pytest.raises(InputError, match="unknown key of columns 'usr'; did you mean 'user'"):
        Columns.of({"usr": "who"})
    with pytest.raises(InputError, match="columns is 'who'; write it as"):
        Columns.of("who")


def test_a_column_is_declared_once() -> None:
    assert list(COLUMNS) == ["value", "time", "weight", "label"] == list(ROLES[2:])
    assert BATCHED == ("weight", "label")
    assert tuple(COLUMNS) == SAVED
    assert Columns(weight="w").names() == {"weight": "w"}
