"""What is in the sdist and the wheel: both packages, and none of the raw results and generated pages of the docs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta as b; b.build_sdist('out'); b.build_wheel('out')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """The names in both, made from a copy by the setuptools that is installed, as pip makes them."""
    pytest.importorskip("setuptools", minversion="77")
    place = tmp_path_factory.mktemp("package")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    shutil.copytree(ROOT / "docs" / "reproduction" / "labels", place / "docs" / "reproduction" / "labels")
    (place / "tests").mkdir()
    shutil.copy(__file__, place / "tests")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=place, env=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sdist,), (wheel,) = (list((place / "out").glob(ending)) for ending in ("*.tar.gz", "*.whl"))
    with tarfile.open(sdist) as archive, zipfile.ZipFile(wheel) as other:
        return [name.partition("/")[2] for name in archive.getnames()], other.namelist()


def test_the_docs_and_their_results_are_in_neither(built: tuple[list[str], list[str]]) -> None:
    sdist, wheel = built
    assert {Path(name).parts[0] for name in sdist if name} <= {
        *("src", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "PKG-INFO", "setup.cfg"),
    }
    assert {Path(name).parts[0].partition("-")[0] for name in wheel} == {"accord", "accord_lab"}
    assert not [name for name in sdist + wheel if "reproduction" in name or name.endswith(".jsonl")]


def test_both_packages_are_in_both(built: tuple[list[str], list[str]]) -> None:
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    data = {
        "accord_lab/paper/published.json",
        "accord_lab/paper/measured.json",
        "accord_lab/py.typed",
        "accord/py.typed",
    }
    for names in ({name.removeprefix("src/") for name in built[0]}, set(built[1])):
        assert modules | data <= names
