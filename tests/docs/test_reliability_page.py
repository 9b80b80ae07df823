"""docs/reliability.md and its record say what the campaigns campaign."""

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
    assert page.record(results) == page.RECORD.read_text(encoding="utf-8"), "run `python stress/page.py`"


def test_the_short_page_follows_the_results(page: ModuleType) -> None:
    results = page.read()
    shown = page.page(results)
    tables = {
        (name, table["title"]): table["rows"] for name, campaign in results.items() for table in campaign["tables"]
    }
    assert f"| {sum(row[1] for row in tables['crash', 'Killed at random moments']):,} kills | 0 results" in shown
    tables["crash", "Killed at random moments"][0][5] = 3
    tables["inputs", "Fuzzing"][0][5] = 2
    tables["determinism", "Over processes and threads"][0][1] = "other"
    changed = page.page(results)
    for said in ("3 results wrong or lost", "2 findings", "| 1 differ in a bit |"):
        assert said in changed
        assert said not in shown


def test_every_section_is_there(page: ModuleType) -> None:
    text = page.RECORD.read_text(encoding="utf-8")
    for campaign in page.read().values():
        assert f"## {campaign['title']}\n" in text
        assert all((ROOT / "docs" / "images" / figure).exists() for figure in campaign.get("figures", []))
        for table in campaign["tables"]:
            assert all(len(row) == len(table["heads"]) for row in table["rows"]), table["title"]


def test_nothing_of_the_machine_is_told(page: ModuleType) -> None:
    for path in (page.PAGE, page.RECORD):
        assert not re.findall(r"(?:/tmp|/work|/home|/root)/\S*", path.read_text(encoding="utf-8"))


def test_every_record_says_commit_and_date(page: ModuleType) -> None:
    """A record as a whole, or every row of its first table."""
    for name, campaign in page.read().items():
        when = (
            [page._made(campaign["made"])]
            if campaign["made"]
            else [str(row[-1]) for row in campaign["tables"][0]["rows"]]
        )
        for said in when:
            assert re.search(r"20\d\d-\d\d-\d\d, (commit )?`[0-9a-f]{7}\+?`", said), f"{name}: {said}"


def test_a_cell_cannot_break_its_table(page: ModuleType) -> None:
    table = {"title": "t", "heads": ["a"], "rows": [["x | y\nz"], [None], [12345]]}
    assert page._table(table).splitlines()[-3:] == ["| x \\| y z |", "|  |", "| 12,345 |"]
