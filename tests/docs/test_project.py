"""What a visitor reads of the project itself: its licence, its version, its metadata."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_the_changelog_has_this_version_and_what_is_coming() -> None:
    headings = re.findall(r"^## \[(.+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", __version__]


def read_yaml(name: str) -> dict[Any, Any]:
    content = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_workflow_runs_what_ci_runs_on_every_python_we_name(pyproject: dict[str, Any]) -> None:
    content = read_yaml(".github/workflows/test.yml")
    assert {"push", "pull_request"} <= set(content[True])  # YAML 1.1 reads `on` as true
    job = content["jobs"]["test"]
    assert [step for step in job["steps"] if "run" in step][-1]["run"].splitlines()[-1] == ".ci/run"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "make test"
    versions = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(pyproject["project"]["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == versions
    assert f">={versions[0]}" == pyproject["project"]["requires-python"]
    assert "${{ matrix.python }}" in job["container"]


@pytest.mark.parametrize("name", ["bug_report.yml", "feature_request.yml"])
def test_issue_forms(name: str) -> None:
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}")
    assert form["name"]
    assert form["description"]
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in asked}) == len(asked)
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations", {}).get("required") for field in asked)


def hooks() -> dict[str, dict[str, Any]]:
    (place,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert place["repo"] == "local"  # nothing is downloaded
    return {hook["id"]: hook for hook in place["hooks"]}


def test_hooks_run_what_make_lint_runs() -> None:
    found = hooks()
    linted = re.findall(
        r"^\t(\.venv/bin/(?:ruff|mypy).*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    programs = [" ".join(line.removesuffix(" .").replace(" --check", "").split()) for line in linted]
    entries = [hook["entry"] for hook in found.values() if hook["language"] == "system"]
    assert len(programs) == len(entries) == 3
    for program, entry in zip(programs, entries, strict=True):
        assert entry.startswith(program)


@pytest.mark.parametrize("name", [name for name, hook in hooks().items() if hook["language"] == "pygrep"])
def test_every_file_passes_the_checks_of_text(name: str) -> None:
    """As pre-commit's pygrep does: the whole file with --multiline, else line by line."""
    hook = hooks()[name]
    pattern = re.compile(hook["entry"].encode(), re.MULTILINE if "--multiline" in hook.get("args", []) else 0)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    bad = []
    for file in listed.stdout.split("\0")[:-1]:
        if not (ROOT / file).is_file() or ("exclude" in hook and re.search(hook["exclude"], file)):
            continue
        content = (ROOT / file).read_bytes()
        parts = [content] if "--multiline" in hook.get("args", []) else content.splitlines()
        if b"\0" not in content[:1024] and any(pattern.search(part) for part in parts):
            bad.append(file)
    assert not bad
