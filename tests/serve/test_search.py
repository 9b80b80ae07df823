from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.serve.search import Search, fold


def test_search_puts_the_id_itself_first():
    found = Search(pa.array([15, 5, 51, 500]), None, np.array([9, 1, 2, 3]))
    assert found.find("5", 10) == [1, 3, 2, 0]  # itself, those that begin so by frequency, those that hold it
    assert found.find("", 2) == [0, 3]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("ABC", "abc"), ("Amélie", "amelie"), ("STRASSE ß", "strasse ss"), ("", ""), ("ΟΔΟΣ ς", "οδοσ σ")],
)
def test_case_and_accents_do_not_matter(text, plain):
    assert fold(pa.array([text])).to_pylist() == [plain]


def test_every_word_must_be_in_the_id_or_the_title():
    found = Search(pa.array(["a1", "a2", "a3"]), pa.array(["Amélie (2001)", None, "Heat 2001"]), np.array([1, 5, 3]))
    assert found.find("AMELIE 2001", 10) == [0]
    assert found.find("2001", 10) == [2, 0]  # the more frequent first
    assert found.find("a", 2) == [1, 2]
    assert found.find("2001 nothing", 10) == []
