"""Which items may be recommended, by ids and by what is known of them."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from accord.data.rules import Condition
from accord.errors import InputError
from accord.recommender.choice import Choices

INFO = pa.table(
    {
        "title": ["Alien", "Brazil", "Casablanca", "Dune", None],
        "Genre": ["Horror|Sci-Fi", "sci-fi", "Drama", None, ""],
        "year": pa.array([1979, 1985, 1942, 2021, None]),
        "rating": ["8.5", "7.9", "8.50", "", None],
        "seen on": pa.array([date(2020, 1, 31), date(2021, 5, 1), None, date(2021, 5, 2), None]),
        "tags": pa.array([["a", "b"], [], None, ["b"], ["c"]]),
        "stock": pa.array([True, False, True, None, True]),
    }
)
CHOICES = Choices(5, INFO)
NONE = np.empty(0, dtype=np.int64)


def left(*conditions, exclude=NONE, allow=None):
    barred = CHOICES.barred(exclude, allow, list(conditions))
    return list(range(5)) if barred is None else np.flatnonzero(~barred.numpy()).tolist()


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("Genre=drama", [2]),
        ("genre = SCI-FI", [0, 1]),
        ("genre==Sci-Fi|Drama", [0, 1, 2]),
        ("genre!=horror", [1, 2]),
        ("year>=1979", [0, 1, 3]),
        ("year<1979.5", [0, 2]),
        ("year=1985|2021", [1, 3]),
        ("rating=8.5", [0, 2]),
        ("rating>8", [0, 2]),
        ("seen on>=2021-05-01", [1, 3]),
        ("seen on<2021", [0]),
        ("tags=b", [0, 3]),
        ("stock=true", [0, 2, 4]),
        ("title=dune", [3]),
        ("title=d=e", []),
    ],
)
def test_what_is_known_of_no_value_meets_no_condition(condition, found):
    assert left(condition) == found


def test_all_conditions_must_hold_and_ids_go_with_them():
    assert left("genre=sci-fi", "year>1980") == [1]
    assert left("year>0", exclude=np.array([0]), allow=np.array([0, 1, 4])) == [1]
    assert left(allow=np.array([3])) == [3]
    assert left(allow=NONE) == []
    assert left(exclude=np.array([1, 2])) == [0, 3, 4]
    assert left() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(~CHOICES.barred(NONE, None, "year>2000").numpy()).tolist() == [3], "one condition as text"


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("genre", "where 'genre': write it as genre=drama, genre!=horror|war or year>=1990."),
        ("=drama", "where '=drama': write it as"),
        ("genre=", "where 'genre=': write it as"),
        ("genra=drama", "unknown column of where 'genra=drama': 'genra'; did you mean 'Genre'?"),
        ("year>=soon", "where 'year>=soon': 'year' is a column of numbers; give a number."),
        ("genre>m", "where 'genre>m': 'genre' has unordered values, such as 'Horror|Sci-Fi'; use = or !=."),
        (5, "where is 5; write conditions as text: 'genre=drama'."),
    ],
)
def test_mistakes_are_one_sentence(condition, sentence):
    with pytest.raises(InputError) as error:
        left(condition)
    assert sentence in str(error.value)


def test_nothing_can_be_asked_of_items_of_which_nothing_is_known():
    with pytest.raises(InputError, match="this run has no items file; train it with items="):
        Choices(3, None).barred(NONE, None, "genre=drama")


def test_a_condition_is_taken_apart():
    assert Condition.parse(" year >= 1990 ") == Condition("year", ">=", "1990")
