"""Builds that are the same twice, components, licences, and the message where a service cannot be reached."""

from __future__ import annotations

import importlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from accord.version import __version__

ROOT = Path(__file__).parents[2]
needs_tools = pytest.mark.skipif(
    not (ROOT / ".supply-venv" / ".ready").exists(), reason="needs the tools of `make dist`"
)


@pytest.fixture
def supply(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "stress"))
    return importlib.import_module("supply")


# --- dist


def packed(order: list[str], mtime: int, user: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in order:
            member = tarfile.TarInfo(name)
            member.mtime, member.uname, member.uid, member.mode = mtime, user, mtime % 1000, 0o600 + mtime % 2
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return out.getvalue()


def test_an_sdist_is_the_same_whoever_packs_it_and_when(supply: ModuleType) -> None:
    one = supply.settled(packed(["a/b", "a/c"], 1_700_000_000, "ann"), 1_600_000_000)
    two = supply.settled(packed(["a/c", "a/b"], 1_800_000_001, "bob"), 1_600_000_000)
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert archive.getnames() == ["a/b", "a/c"]
        assert {member.mtime for member in archive} == {1_600_000_000}
        assert archive.extractfile("a/b").read() == b"a/b"  # type: ignore[union-attr]


@needs_tools
def test_two_builds_have_the_same_bytes(supply: ModuleType, tmp_path: Path) -> None:
    commit = supply.git("rev-parse", "HEAD")
    one, two = (supply.dist(tmp_path / name, commit) for name in ("one", "two"))
    assert one == two
    assert sorted(name.rpartition("-")[2] for name in one) == [f"{__version__}.tar.gz", "any.whl"]
    for name in one:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with tarfile.open(tmp_path / "one" / f"accord-{__version__}.tar.gz") as archive:
        assert f"accord-{__version__}/src/accord/serve/static/index.html" in archive.getnames()
        assert f"accord-{__version__}/LICENSE" in archive.getnames()
    with zipfile.ZipFile(tmp_path / "one" / f"accord-{__version__}-py3-none-any.whl") as wheel:
        told = message_from_bytes(wheel.read(f"accord-{__version__}.dist-info/METADATA"))
        assert f"accord-{__version__}.dist-info/licenses/LICENSE" in wheel.namelist()
    assert told["Version"] == __version__
    assert (told["License-Expression"], told["Author"]) == ("Apache-2.0", "The Accord authors")
    urls = [url.partition(",")[0] for url in told.get_all("Project-URL", [])]
    assert sorted(urls) == ["Changelog", "Documentation", "Homepage", "Issues"]


# --- components


@needs_tools
def test_every_component_is_listed_with_what_it_is_for(supply: ModuleType, tmp_path: Path) -> None:
    text = supply.sbom(tmp_path).read_text(encoding="utf-8")
    content = json.loads(text)
    assert content["bomFormat"] == "CycloneDX"
    assert content["metadata"]["component"]["version"] == __version__
    scopes = {part["name"].lower(): part["scope"] for part in content["components"]}
    wanted = {"torch": "required", "numpy": "required", "fastapi": "optional", "pytest": "excluded"}
    assert wanted.items() <= scopes.items()
    assert "accord" not in scopes
    assert "file:" not in text
    assert all(part["version"] for part in content["components"])


def test_every_version_is_pinned(supply: ModuleType) -> None:
    assert supply.not_pinned() == []


def test_what_a_project_needs_is_what_its_packages_say(supply: ModuleType) -> None:
    project = {"name": "accord", "dependencies": ["pydantic>=2"], "optional-dependencies": {"serve": ["uvicorn"]}}
    assert "uvicorn" not in supply.needed(project, [])
    assert {"pydantic", "pydantic-core", "typing-extensions"} <= supply.needed(project, [])
    assert {"uvicorn", "h11", "click"} <= supply.needed(project, ["serve"])
    assert "httptools" not in supply.needed(project, ["serve"])  # of an extra of uvicorn that nobody asked for


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        ("MIT License", "MIT"),
        ("Apache-2.0 OR BSD-2-Clause", "Apache-2.0 OR BSD-2-Clause"),
        ("MIT License; Mozilla Public License 2.0 (MPL 2.0)", "MIT AND MPL-2.0"),
    ],
)
def test_licences_that_we_know(supply: ModuleType, said: str, licence: str) -> None:
    assert supply.judged([("some-package", "1", said)]) == [("some-package", "1", licence)]


@pytest.mark.parametrize(
    "said", ["UNKNOWN", "GPL-3.0-only", "MIT AND LGPL-2.1", "(MIT OR AGPL-3.0)", "Proprietary", ""]
)
def test_a_licence_that_is_unknown_or_not_on_the_list_fails(supply: ModuleType, said: str) -> None:
    with pytest.raises(supply.Trouble, match=r"not on our list of licences: some-package"):
        supply.judged([("another", "1", "MIT"), ("some-package", "1", said)])


@needs_tools
def test_the_licences_of_everything_we_need(supply: ModuleType) -> None:
    listed = {name.lower(): licence for name, _, licence in supply.licences()}
    assert listed["numpy"].startswith("BSD-3-Clause")
    assert len(listed) > 80


# --- vulnerabilities


@contextmanager
def service(status: int, vulnerable: str) -> Iterator[str]:
    """Answers as OSV does: one package has a flaw."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            package = {"ecosystem": "PyPI", "name": vulnerable}
            ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}]
            flaw = {"id": "TEST-1", "affected": [{"package": package, "ranges": ranges}], "details": "bad"}
            body = json.dumps({"vulns": [flaw]} if asked["package"]["name"] == vulnerable else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("jinja2==3.1.6\nnumpy==2.4.6\n")
    return path


@needs_tools
def test_known_vulnerabilities_are_found(supply: ModuleType, pins: Path) -> None:
    with service(200, "nothing") as url:
        assert supply.vulnerabilities(url, pins) == (2, [])
    with service(200, "jinja2") as url:
        number, known = supply.vulnerabilities(url, pins)
    assert number == 2
    assert known == ["jinja2 3.1.6: TEST-1, fixed in 99.0"]


@needs_tools
def test_a_service_that_cannot_be_asked_is_not_taken_for_a_good_answer(supply: ModuleType, pins: Path) -> None:
    with service(500, "nothing") as url, pytest.raises(supply.Trouble, match="so nothing was checked") as trouble:
        supply.vulnerabilities(url, pins)
    assert trouble.value.code == 3
    with pytest.raises(supply.Trouble, match="could not be asked") as trouble:
        supply.vulnerabilities("http://127.0.0.1:9/v1/query", pins)
    assert trouble.value.code == 3


def test_versions_that_could_not_be_looked_up_are_not_taken_for_good(
    supply: ModuleType, pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip-audit itself ends with 0 then."""
    tool = tmp_path / "pip-audit"
    found = {
        "dependencies": [{"name": "jinja2", "skip_reason": "not found"}, {"name": "b", "version": "1", "vulns": []}]
    }
    tool.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(supply, "TOOLS", tmp_path)
    with pytest.raises(supply.Trouble, match="1 of 2 versions could not be looked up: jinja2") as trouble:
        supply.vulnerabilities(None, pins)
    assert trouble.value.code == 3


def test_without_the_tools_it_says_how_to_get_them(
    supply: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supply, "TOOLS", tmp_path / ".supply-venv" / "bin")
    monkeypatch.setattr("sys.argv", ["supply.py", "vulnerabilities"])
    assert supply.main() == 2
    assert capsys.readouterr().err == "supply: pip-audit is not installed; set it up: make .supply-venv/.ready\n"
