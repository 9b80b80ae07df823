"""Names as the pages write them."""

from __future__ import annotations

from accord_lab.names import display_name


def test_names_are_those_of_the_paper():
    names = ("gmf", "deca-p", "ml-100k", "rce", "ease-told", "mine")
    assert [display_name(name) for name in names] == [
        *("GMF", "DeCA(p)", "MovieLens-100k", "R-CE", "EASE with ratings", "mine"),
    ]
