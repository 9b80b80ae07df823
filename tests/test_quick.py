"""The rules of `make quick` name what there is, and leave out what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import quick

FILES = sorted(quick.TESTS.rglob("*.py"))


def test_every_name_is_of_something() -> None:
    written = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    defined = set(re.findall(r"def (\w+)\(", written))
    assert defined >= quick.NAMES | quick.FIXTURES
    assert all((quick.TESTS / folder).is_dir() for folder in quick.FOLDERS)
    assert set().union(*(quick.imported(path) for path in FILES)) >= quick.STARTERS - {"multiprocessing"}


def test_a_file_is_left_out_by_its_folder_or_by_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "TESTS", tmp_path)
    (tmp_path / "test_a.py").write_text("import numpy\nfrom accord.data.read import load\n")
    (tmp_path / "test_b.py").write_text("def test():\n    from browser import chromium\n")
    assert not quick.skips_file(tmp_path)
    assert not quick.skips_file(tmp_path / "test_a.py")
    assert quick.skips_file(tmp_path / "test_b.py")
    assert quick.skips_file(tmp_path / "serve")
    assert quick.skips_file(tmp_path / "docs" / "test_a.py")


def test_a_test_is_left_out_by_its_name_or_its_fixtures() -> None:
    assert quick.skips_test("test_memory_is_that_of_the_rows", set())
    assert quick.skips_test("test_anything", {"tmp_path", "shared_data"})
    assert not quick.skips_test("test_anything", {"tmp_path"})


@pytest.mark.parametrize("number", [0, 1, quick.MOST, quick.MOST + 1, 1000])
def test_of_many_cases_some_are_kept(number: int) -> None:
    kept = quick.some(range(number))
    assert len(kept) == len(set(kept)) == min(number, quick.MOST)
    assert kept == sorted(kept)
    assert number == 0 or (kept[0], kept[-1]) == (0, number - 1)


def test_only_make_quick_is_quick() -> None:
    lines = (quick.TESTS.parent / "Makefile").read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in lines if "--quick" in line] == ["$(PYTEST)"]
    assert "--quick" in lines[lines.index("quick: setup") + 1]
