"""What an items file says of items, as features."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.data.attributes import MOST_FEATURES, Attributes
from accord.errors import InputError


def test_categories_words_and_ranges_of_numbers():
    years = [str(1980 + n) for n in range(20)]
    info = pa.table(
        {
            "title": [f"The {'red' if n % 2 else 'blue'} film of {n} ({1900 + 3 * n})" for n in range(20)],
            "genre": ["drama|war" if n % 3 else "comedy" for n in range(20)],
            "tags": [["a", None], ["b"], None, []] * 5,
            "year": years,
            "one": ["same"] * 20,
            "empty": pa.nulls(20, pa.string()),
        }
    )
    features = Attributes.of(info)
    assert {"genre=drama", "genre=war", "genre=comedy", "tags=a", "tags=b", "title: red"} <= set(features.names)
    assert {"year 1980 to 1982", "year in title 1900 to 1906"} <= set(features.names)
    assert not any(name in ("title: the", "title: film", "one=same") for name in features.names)  # every item has them
    assert features.unused == ["one"]
    dense = features.matrix.toarray()
    for name, holds in (("genre=comedy", lambda n: n % 3 == 0), ("year 1980 to 1982", lambda n: n < 2)):
        assert np.flatnonzero(dense[:, features.names.index(name)]).tolist() == [n for n in range(20) if holds(n)]
    of_genre = [place for place, name in enumerate(features.names) if name.startswith("genre")]
    assert np.allclose(np.linalg.norm(dense[:, of_genre], axis=1), 1)  # each column counts alike


def test_few_numbers_are_categories_and_gaps_are_no_features():
    features = Attributes.of(pa.table({"size": [1, 2, None, 1, 2, 2], "stars": [0.5, 1, 1, None, 1, 0.5]}))
    assert set(features.names) == {"size=1", "size=2", "stars=0.5", "stars=1.0"}
    assert (features.matrix.toarray() > 0).sum() == 10


def test_only_the_commonest_of_very_many_features_count():
    words = [f"word{n} word{n + 1} common{n % 2}" for n in range(MOST_FEATURES + 100)]
    features = Attributes.of(pa.table({"text": words}))
    assert len(features.names) == features.matrix.shape[1] == MOST_FEATURES
    assert {"text: common0", "text: common1"} <= set(features.names)


def test_columns_that_tell_nothing_are_one_sentence():
    with pytest.raises(InputError, match="says nothing that some items share and others do not: give it a column"):
        Attributes.of(pa.table({"title": ["Alien", "Heat"], "x": [1, 1]}))
