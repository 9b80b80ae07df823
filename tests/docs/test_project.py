"""What a visitor reads of the project itself: its licence, its version, its metadata."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from accord.version import __version__

ROOT = Path(__file__).parents[2]
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # sha256 of the text as Apache gives it


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_licence_is_the_text_of_apache_with_our_name_in_it() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.count("Copyright 2026 The Accord authors") == 1
    plain = text.replace("Copyright 2026 The Accord authors", "Copyright [yyyy] [name of copyright owner]")
    assert hashlib.sha256(plain.encode()).hexdigest() == APACHE_2


def test_the_metadata_names_licence_authors_and_places(pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert project["authors"] == [{"name": "The Accord authors"}]
    assert {"Homepage", "Changelog", "Issues"} <= set(project["urls"])
    assert not [one for one in project["classifiers"] if one.startswith("License ::")]  # the expression says it


def test_the_version_is_written_in_one_place(pyproject: dict[str, Any]) -> None:
    assert "version" not in pyproject["project"]
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "accord.version.__version__"}
    written = re.compile(rf"""=\s*["']{re.escape(__version__)}["']""")
    files = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    found = [path.relative_to(ROOT).as_posix() for path in files if written.search(path.read_text(encoding="utf-8"))]
    assert found == ["src/accord/version.py"]
