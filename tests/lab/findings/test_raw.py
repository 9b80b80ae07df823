"""Raw results by what was run, tables, and claims that the raw results no longer make."""

from __future__ import annotations

import pytest

from accord.comparing.compare import Cell
from accord.errors import InputError
from accord_lab.findings.raw import Raw, cell_name, claim, table
from reproduction import FOLDER, metric


def test_a_claim_that_no_longer_holds_is_refused():
    assert claim("one is below two.", 1 < 2) == "- one is below two.\n"
    with pytest.raises(InputError, match="no longer say: two is below one"):
        claim("two is below one.", 1 < 2, 2 < 1)
    text = claim("word " * 60)
    assert max(map(len, text.splitlines())) <= 128
    assert [line[:2] for line in text.splitlines()] == ["- ", "  ", "  "]


def test_lines_are_selected_by_their_settings():
    raw = Raw(FOLDER / "published", "grid")
    options = (("method.c1", 10.0), ("method.c2", 1.0), ("method.alpha", 0.5))
    by_hand = metric("published/grid.jsonl", dataset="modcloth", method="deca", c1=10.0, c2=1.0, alpha=0.5)
    assert len(by_hand) == 3
    assert list(raw.values("modcloth", Cell("gmf", "deca", options))) == by_hand
    with pytest.raises(InputError, match=r"no runs of gmf \+ deca c1=7"):
        raw.mean("modcloth", Cell("gmf", "deca", (("method.c1", 7.0),)))
    with pytest.raises(InputError, match="has no results"):
        Raw(FOLDER, "absent")


def test_a_table_is_markdown():
    assert table(("a", "b"), [("x", "1"), (cell_name(Cell("gmf", "deca")), None)]) == (
        "| a | b |\n| --- | ---: |\n| x | 1 |\n| GMF with DeCA |  |\n"
    )
