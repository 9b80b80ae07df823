"""docs/reliability.md says what the campaigns found."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from helpers import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """By its path: benchmarks has a module of the same name."""
    return script(ROOT / "stress" / "page.py", "stress_page")


def test_page_is_current(page: ModuleType) -> None:
    results = page.read()
    assert results, "no campaign has been run"
    assert page.page(results) == page.PAGE.read_text(encoding="utf-8"), "run `python stress/page.py`"


def test_every_section_is_there(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for found in page.read().values():
        assert f"## {found['title']}\n" in text
        assert all((ROOT / "docs" / "images" / figure).exists() for figure in found.get("figures", []))
        for table in found["tables"]:
            assert all(len(row) == len(table["heads"]) for row in table["rows"]), table["title"]


def test_nothing_of_the_machine_is_told(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert not re.findall(r"(?:/tmp|/work|/home|/root)/\S*", text)


def test_every_record_says_commit_and_date(page: ModuleType) -> None:
    """A record as a whole, or every row of its first table."""
    for name, found in page.read().items():
        when = [page._made(found["made"])] if found["made"] else [str(row[-1]) for row in found["tables"][0]["rows"]]
        for said in when:
            assert re.search(r"20\d\d-\d\d-\d\d, (commit )?`[0-9a-f]{7}\+?`", said), f"{name}: {said}"


def test_a_cell_cannot_break_its_table(page: ModuleType) -> None:
    table = {"title": "t", "heads": ["a"], "rows": [["x | y\nz"], [None], [12345]]}
    assert page._table(table).splitlines()[-3:] == ["| x \\| y z |", "|  |", "| 12,345 |"]
