"""Who is let in, how much at once, and what happens when the run folder changes."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import httpx
import pytest

from accord.serve import connection, guard
from accord.serve.api import make_app
from accord.serve.guard import Guard, Rules
from accord.serve.meters import Meters
from serving import Client, make_holder, run, serving  # noqa: F401


@pytest.fixture(scope="module")
def served(run):  # noqa: F811
    return make_holder(run)


def client(served, **rules):
    return Client(make_app(served, Rules(**rules)))


# --- who


def test_without_a_token_only_its_own_names_are_answered(served):
    asks = client(served)
    for host in ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"):
        assert asks.get("/v1/about", headers={"host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[", "user@evil.example"):
        answer = asks.get("/v1/about", headers={"host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "wrong_host")


def test_pages_of_other_sites_cannot_change_anything(served):
    asks = client(served)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9"):
        answer = asks.post("/reload", headers={"origin": origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin")
    assert asks.post("/reload", headers={"origin": "http://127.0.0.1"}).status_code == 200
    forwarded = asks.post("/reload", headers={"x-forwarded-for": "10.0.0.1"})
    assert forwarded.json()["error"]["code"] == "token_needed"


def test_a_token_opens_everything_but_the_empty_pages(served):
    asks = client(served, token="secret")
    for path in ("/v1/about", "/metrics", "/openapi.json", "/v1/recommendations?user=u0002"):
        for given in (None, "Bearer wrong", "secret", "Bearer sécret".encode()):
            answer = asks.get(path, headers={"authorization": given} if given else None)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert asks.get(path, headers={"authorization": "Bearer secret", "host": "any.example"}).status_code == 200
    assert asks.post("/reload").status_code == 401
    assert asks.post("/reload", headers={"authorization": "Bearer secret"}).status_code == 200
    for path in ("/", "/docs", "/static/page.css", "/healthz", "/readyz"):
        assert asks.get(path).status_code == 200


# --- how much


def call(app, method="GET", path="/", headers=(), messages=()):
    """Status and body of one request to an ASGI application; the body arrives in the messages given, or never."""
    sent = []
    left = list(messages)

    async def receive():
        return left.pop(0) if left else await asyncio.Future()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
    }
    return scope, receive, send, sent


def test_more_requests_than_wait_are_refused_and_health_is_not(served):
    app = make_app(served, Rules(most_waiting=4))

    async def crowd():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asks:
            paths = ["/v1/recommendations?user=u0002"] * 20 + ["/healthz"]
            return await asyncio.gather(*(asks.get(path) for path in paths))

    *answers, health = asyncio.run(crowd())
    refused = [answer for answer in answers if answer.status_code == 503]
    assert len(refused) == 16
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert refused[0].json()["error"]["code"] == "overloaded"
    assert sum(answer.status_code == 200 for answer in answers) == 4
    assert health.status_code == 200
    assert client(served).get("/v1/about").status_code == 200  # nothing stays counted


def test_an_answer_that_takes_too_long_is_given_up():
    async def sleeps(scope, receive, send):
        await asyncio.sleep(30)

    scope, receive, send, sent = call(None)
    asyncio.run(Guard(sleeps, Rules(seconds=0.05), Meters())(scope, receive, send))
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["error"]["code"] == "timeout"


@pytest.mark.parametrize(
    ("headers", "messages", "status", "code"),
    [
        ([], [], 408, "too_slow"),
        ([], [{"type": "http.request", "body": b"a", "more_body": True}], 408, "too_slow"),
        ([], [{"type": "http.request", "body": b"a" * 60, "more_body": True}] * 2, 413, "too_large"),
        ([(b"content-length", b"101")], [], 413, "too_large"),
        ([(b"content-length", b"-1")], [], 413, "too_large"),
        ([], [{"type": "http.disconnect"}], 400, "cut_short"),
    ],
)
def test_bodies_are_bounded_in_size_and_time(headers, messages, status, code):
    async def never(scope, receive, send):
        raise AssertionError("the body is not whole")

    scope, receive, send, sent = call(None, "POST", "/v1/recommendations", headers, messages)
    asyncio.run(Guard(never, Rules(seconds=0.05, most_bytes=100), Meters())(scope, receive, send))
    assert sent[0]["status"] == status
    assert json.loads(sent[1]["body"])["error"]["code"] == code


def test_an_error_of_our_own_tells_nothing_of_itself(caplog):
    id_ = "secret"

    async def breaks(scope, receive, send):
        raise RuntimeError(id_)

    scope, receive, send, sent = call(None)
    asyncio.run(Guard(breaks, Rules(), Meters())(scope, receive, send))
    assert sent[0]["status"] == 500
    assert b"secret" not in sent[1]["body"]
    assert "in breaks\n" in caplog.text  # the log says where
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text  # what an error says may have ids in it
    scope, receive, send, sent = call(None)
    asyncio.run(Guard(breaks, Rules(log_requests=True), Meters())(scope, receive, send))
    assert "RuntimeError: secret" in caplog.text


def test_requests_are_logged_only_when_asked(served, caplog):
    caplog.set_level("INFO", "accord.serve")
    client(served).get("/v1/recommendations?user=u0002")
    assert "u0002" not in caplog.text
    client(served, log_requests=True).get("/v1/recommendations?user=u0002%0Anext")
    assert "user=u0002%0Anext" in caplog.text
    assert "\nnext" not in caplog.text


def test_connections_that_send_half_a_request_are_closed(served, monkeypatch):
    import socket

    monkeypatch.setattr(connection, "HEADER_SECONDS", 0.3)
    with serving(served) as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        with socket.create_connection(place, 90) as silent, socket.create_connection(place, 90) as half:
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-")
            assert httpx.get(f"{address}/healthz").status_code == 200
            began = time.monotonic()
            assert silent.recv(100) == b""
            assert half.recv(100) == b""
            assert time.monotonic() - began < 60
        with httpx.Client() as kept:  # a connection that does its work is not closed
            kept.get(f"{address}/healthz")
            time.sleep(0.5)
            assert kept.get(f"{address}/healthz").status_code == 200


def test_what_every_answer_carries_is_all_text():
    assert all(isinstance(name, bytes) and isinstance(value, bytes) for name, value in guard.HEADERS)


# --- what is not one request


def test_two_lengths_are_refused(served):
    answer = client(served).post(
        "/v1/recommendations",
        content=b'{"users": ["u0002"]}',
        headers={"transfer-encoding": "chunked", "content-length": "20"},
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert answer.headers["connection"] == "close"


def test_paths_and_headers_are_bounded_however_they_arrive(served):
    asks = client(served, most_header_bytes=2000)
    long = "x" * 2000
    answer = asks.get(f"/v1/about?{long}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (414, "too_long")
    answer = asks.get("/v1/about", headers={"x-long": long})
    assert (answer.status_code, answer.json()["error"]["code"]) == (431, "too_long")
    assert asks.get("/v1/about", headers={"x-long": long[:1500]}).status_code == 200


def test_the_same_over_a_connection(served):
    """In one piece, which is read whole before anything is counted."""
    for head, status in (
        (b"GET /v1/about?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (b"GET /v1/about HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
        (b"POST /v1/recommendations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    ):  # fmt: skip
        with serving(served) as url, socket.create_connection(("127.0.0.1", httpx.URL(url).port)) as client_side:
            client_side.sendall(head)
            answer = client_side.recv(2**16)
        assert answer.startswith((b"HTTP/1.1 " + status, b"HTTP/1.1 400")), answer[:80]
