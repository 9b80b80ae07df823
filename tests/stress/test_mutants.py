"""Every deliberate bug can still be put in: its line is in the source, once where it should be, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_its_line_is_there(mutant):
    assert mutant.old in (ROOT / "src" / "accord" / mutant.file).read_text(encoding="utf-8")
    assert (ROOT / "tests" / mutant.tests).is_file()


def test_a_bug_that_nothing_tests_survives(tmp_path, monkeypatch):
    harmless = mutants.Mutant("a comment", "version.py", '"""The version', '"""A version', "test_errors.py")
    assert mutants.survives(harmless, tmp_path / "harmless")
    harmful = mutants.Mutant("no sentence", "errors.py", "def shown(", "def not_shown(", "test_errors.py")
    assert not mutants.survives(harmful, tmp_path / "harmful")
