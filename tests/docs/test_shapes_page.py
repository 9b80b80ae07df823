"""docs/records/shapes.md says what the raw files say, and what was asked for holds in them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("shapes_page")


def test_the_page_is_current(page: ModuleType) -> None:
    text = (ROOT / "docs" / "records" / "shapes.md").read_text(encoding="utf-8")
    assert text == page.page(page.raw()), "run `python benchmarks/shapes_page.py`"


def test_every_result_is_of_its_shape(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = importlib.import_module("shapes").SHAPES
    for name, one in page.raw().items():
        shape = shapes[name.partition("-")[0]]
        assert (one["rows"], one["users"], one["items"]) == (shape.rows, shape.users, shape.items)
        assert (one["labels"], one["budget"]) == (name.endswith("-labels"), 120)


def test_what_was_asked_for_holds(page: ModuleType) -> None:
    """The time and memory of an answer are mostly torch's, whose import differs between its builds."""
    for name, one in page.raw().items():
        met = page.promises(one)
        assert met["run"] or one["run_bytes"] < 2**25, name
        assert met["budget"], name
        assert one["recommend"]["wall"] - one["import_torch"]["wall"] < 1.5, name
        assert one["recommend"]["peak_mb"] - one["import_torch"]["peak_mb"] < 512, name


def test_a_promise_that_is_not_kept_is_marked(page: ModuleType) -> None:
    results = page.raw()
    results["coats"]["run_bytes"] = 30 * results["coats"]["log_bytes"]
    results["games"]["train"]["wall"] = 150
    text = " ".join(page.page(results).split())
    assert "| 30.0 **missed** |" in text
    assert "| 150 **missed** |" in text
    ended = sum(map(page.ended, results.values()))
    assert f"; {len(results) - 1} of {len(results)} keep the budget (the clock ended {ended} of the searches)" in text
