from __future__ import annotations

import contextlib
import json
import re
import socket
import time

import httpx
import pytest

from accord.errors import InputError
from accord.serve import guard, server
from accord.serve.guard import SECURITY_HEADERS, Rules
from serving import make_holder, run, serving  # noqa: F401


def test_what_counts_as_this_machine():
    assert all(server.is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(server.is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""))


def test_a_place_that_cannot_be_listened_on_is_one_sentence():
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1 port {port} \(.+\); give another host="):
            server.listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"port=70000 is .*; give a number from 0 to 65535"):
        server.listen("127.0.0.1", 70_000)


def test_others_are_let_in_only_with_a_good_token(tmp_path):
    with pytest.raises(InputError, match=r"host='0\.0\.0\.0' .* token: set ACCORD_TOKEN"):
        server.serve(tmp_path, "0.0.0.0", 0)
    with pytest.raises(InputError, match="16 characters or more"):
        server.serve(tmp_path, "0.0.0.0", 0, token="short")


def test_uvicorn_tells_nothing_of_itself():
    config = server.configuration(lambda *_: None)
    assert (config.server_header, config.access_log, config.proxy_headers) == (False, False, False)
    assert config.ws == "none"


TELLING = (b"Traceback", b"uvicorn", b"h11", b"starlette", b"pydantic", b"fastapi", b"ython", b"site-packages", b".py")
HEAD = b"Host: 127.0.0.1\r\n"
POST = b"POST /v1/recommendations HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def served(run):  # noqa: F811
    return make_holder(run)


@pytest.fixture(scope="module")
def address(served):
    with serving(served) as address:
        yield address


def connect(address, take=None):
    """A socket to the server; `take` bounds what the system takes of an answer by itself."""
    made = socket.socket()
    if take:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, take)
    made.settimeout(10)
    made.connect(("127.0.0.1", int(address.rpartition(":")[2])))
    return made


def all_of(made):
    """What comes until the other side ends the connection."""
    said = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := made.recv(2**16):
            said += part
    return bytes(said)


def one_of(made):
    """The first answer."""
    with made.makefile("rb") as said:
        head = b"".join(iter(said.readline, b"\r\n"))
        return head + b"\r\n" + said.read(int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1]))


def check_error(said, *, statuses):
    """An error as all are: its status, the headers of every answer, a code and a sentence, nothing of the server."""
    head, _, body = said.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    assert int(lines[0].split()[1]) in statuses, said
    assert {name.lower(): value.lower() for name, value in SECURITY_HEADERS.items()}.items() <= headers.items()
    assert "server" not in headers
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"].keys() == {"code", "message"}
    assert not [word for word in TELLING if word in said]


NOT_HTTP = {
    "noise": bytes(range(256)) + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 200 + b"\r\n\r\n",
    "one word": b"GET\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "no host": b"GET /v1/about HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /v1/about HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n",
    "NUL": b"GET /\0 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: \0\r\n\r\n",
    "no colon": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"nonsense\r\n\r\n",
    "long header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 400_000 + b"\r\n\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 80_000 + b"\r\n",
    "length of words": POST + b"Content-Length: many\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "length of 5000 digits": POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nnot a number\r\n{}\r\n",
    "unknown encoding": POST + b"Transfer-Encoding: gzip\r\n\r\n{}",
}
REFUSED = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "another host's address": b"GET http://evil.example/ HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    "tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    "unknown method": b"BREW /v1/about HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    "up the folders": b"GET /static/../../api.py HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    "up the folders, hidden": b"GET /static/..%2f..%2fapi.py HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n",
    "deep JSON": POST + b"Connection: close\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
    "digits": POST + b"Connection: close\r\nContent-Length: 100010\r\n\r\n" + b'{"users":[' + b"1" * 100_000,
    "not UTF-8": POST + b"Connection: close\r\nContent-Length: 12\r\n\r\n" + b'{"users":"\xff\xfe',
    "NaN": POST + b"Connection: close\r\nContent-Length: 26\r\n\r\n" + b'{"users":["u0002"],"k":NaN}'[:26],
    "too much": POST + b"Content-Length: 1048577\r\nConnection: close\r\n\r\n",
}


def check_health(address, caplog):
    assert httpx.get(f"{address}/healthz").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP.keys())
def test_what_is_not_http_ends_the_connection(address, caplog, sent):
    with connect(address) as made:
        with contextlib.suppress(ConnectionError):
            made.sendall(sent)
        said = all_of(made)
    assert not said or said.startswith(b"HTTP/1.1 400 "), said  # it may end before the client has sent everything
    assert len(said) < 500
    assert not [word for word in TELLING if word in said]
    check_health(address, caplog)


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED.keys())
def test_nonsense_is_refused_without_a_word_about_the_server(address, caplog, sent):
    with connect(address) as made:
        with contextlib.suppress(ConnectionError):
            made.sendall(sent)
        check_error(one_of(made), statuses=range(400, 500))
    check_health(address, caplog)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/about/", 404, "not_found"),
        ("GET", "/static/nothing.js", 404, "not_found"),
        ("DELETE", "/v1/about", 405, "method_not_allowed"),
        ("GET", "/v1/recommendations", 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&k=1001", 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&k=" + "9" * 5000, 422, "invalid"),
        ("GET", "/v1/recommendations?user=" + "u" * 1001, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002" + "&exclude=a" * 1001, 422, "invalid"),
        ("GET", "/v1/items?q=" + "a" * 201, 422, "invalid"),
        ("GET", "/v1/history?user=nobody", 404, "unknown_user"),
        ("GET", "/v1/similar?item=%00%0d%0aX:%20y", 404, "unknown_item"),
    ],
)
def test_every_error_is_one_of_ours(address, method, path, status, code):
    with connect(address) as made:
        made.sendall(f"{method} {path} HTTP/1.1\r\n".encode() + HEAD + b"Connection: close\r\n\r\n")
        said = all_of(made)
    check_error(said, statuses=[status])
    assert f'"code":"{code}"'.encode() in said


def test_lists_that_are_too_long_are_refused(address):
    for asked in ({"users": ["a"] * 101}, {"users": ["a"], "exclude": ["a"] * 10_001}, {"users": ["a"], "k": 1001}):
        assert httpx.post(f"{address}/v1/recommendations", json=asked).status_code == 422
    assert httpx.post(f"{address}/v1/recommendations/history", json={"history": ["a"] * 1001}).status_code == 422


def test_an_error_of_the_api_itself_has_no_trace_and_its_log_no_id(run, monkeypatch, caplog):  # noqa: F811
    broken = make_holder(run)
    monkeypatch.setattr(broken.snapshot, "recommend", lambda user, *_: {}[user])
    for tells in (False, True):
        caplog.clear()
        with serving(broken, Rules(log_requests=tells)) as address, connect(address) as made:
            made.sendall(b"GET /v1/recommendations?user=u0002 HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n")
            said = all_of(made)
        check_error(said, statuses=[500])
        assert b'"code":"internal"' in said
        assert "KeyError" in caplog.text
        assert ("u0002" in caplog.text) is tells


def test_the_token_is_compared_in_constant_time_and_by_nothing_else(served, monkeypatch):
    compared = []

    def always(given, wanted):
        compared.append((given, wanted))
        return True

    monkeypatch.setattr(guard.hmac, "compare_digest", always)
    with serving(served, Rules(token="secret")) as address:
        assert httpx.get(f"{address}/v1/about", headers={"authorization": "anything"}).status_code == 200
    assert compared == [(b"anything", b"Bearer secret")]


def test_a_thousand_items_to_leave_out_fit_into_a_request(address):
    excluded = "".join(f"&exclude=an-item-with-a-name-{n:020}" for n in range(1000))
    assert httpx.get(f"{address}/v1/recommendations?user=u0002{excluded}").status_code == 200


# --- clients that keep the server waiting


def test_a_refused_body_may_still_come_and_the_connection_is_good_for_more(address):
    body = b" " * 2**20 + b"{}"
    with connect(address) as made:
        made.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        made.sendall(b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n")
        said = all_of(made)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"HTTP/1.1 200 " in said


def test_slow_bodies_take_no_place_from_others(served):
    with serving(served, Rules(max_requests=2, seconds=0.5)) as address, contextlib.ExitStack() as open_:
        slow = [open_.enter_context(connect(address)) for _ in range(10)]
        for made in slow:
            made.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        time.sleep(0.1)
        assert httpx.get(f"{address}/v1/recommendations?user=u0002").status_code == 200
        for made in slow:
            assert made.recv(2**16).startswith(b"HTTP/1.1 408 ")


def test_bodies_on_their_way_are_bounded_all_together(served):
    with serving(served, Rules(max_incomplete_bytes=3000)) as address, contextlib.ExitStack() as open_:
        large = [open_.enter_context(connect(address)) for _ in range(4)]
        for made in large:
            made.sendall(POST + b"Content-Length: 1001\r\n\r\n" + b" " * 1000)
            time.sleep(0.1)
        said = large[-1].recv(2**16)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in said.lower()
        assert httpx.get(f"{address}/v1/about").status_code == 200
        for made in large[:3]:
            made.close()
        time.sleep(0.1)
        assert httpx.post(f"{address}/v1/recommendations", json={"users": ["u0002"] * 100}).status_code == 200
