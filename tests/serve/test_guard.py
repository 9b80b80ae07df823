"""Who is let in, how much at once and for how long, by a guard around an application that answers everything."""

from __future__ import annotations

import asyncio
import itertools
import json
from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest

from accord.serve import guard
from accord.serve.guard import ApiError, Guard, Meters, Rules, overloaded

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


async def echo(scope, receive, send):
    """Answers with the body that arrived; a second message would be of the connection."""
    body = (await receive())["body"] if scope["method"] == "POST" else b"here"
    await send(dict(START))
    await send({"type": "http.response.body", "body": body})


def made(app=echo, **rules):
    return Guard(app, Rules(**rules), Meters())


class Answer:
    """What was sent as an answer."""

    def __init__(self):
        self.sent = []

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self):
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def error(self):
        found = json.loads(self.body)["error"]
        return self.status, found["code"], found["message"]


def parts(*bodies):
    """Messages of a body that arrives in parts, of which the last ends it."""
    more = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    return [*more[:-1], more[-1] | {"more_body": False}] if more else []


async def ask(guarded, path="/v1/about", method="GET", headers=(), messages=(), query=b"", host=b"localhost", **scope):
    """One request; what follows the messages given never arrives."""
    answer, left = Answer(), list(messages)

    async def receive():
        return left.pop(0) if left else await asyncio.Future()

    headers = [*headers] if host is None else [(b"host", host), *headers]
    asked = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers} | scope
    await guarded(asked, receive, answer.send)
    return answer


def asks(guarded, *arguments, **more):
    return asyncio.run(ask(guarded, *arguments, **more))


def posts(guarded, *bodies, headers=()):
    return asks(guarded, "/v1/recommendations", "POST", headers, parts(*bodies))


# --- who


def test_without_a_token_only_its_own_names_are_answered():
    for host in (b"127.0.0.1:8000", b"localhost", b"LOCALHOST:1", b"[::1]:8000"):
        assert asks(made(), host=host).status == 200
    for host in (b"evil.example", b"127.0.0.1.evil.example", b"", b"[", b"user@evil.example", b"\xff", None):
        assert asks(made(), host=host).error == (
            400, "wrong_host", "this server answers only to its own name or address.",
        )  # fmt: skip


CROSS = (403, "cross_origin", "requests from pages of other sites are not answered.")


def test_pages_of_other_sites_cannot_change_anything():
    for origin in (b"http://evil.example", b"null", b"http://localhost:9", b"http://[", b"http://\xff"):
        assert asks(made(), "/reload", "POST", [(b"origin", origin)]).error == CROSS
        for method in ("GET", "HEAD"):  # they change nothing, and no other site can read the answer
            assert asks(made(), method=method, headers=[(b"origin", origin)]).status == 200
    for origin, host in ((b"http://LOCALHOST:1", b"localhost:1"), (b"http://localhost:1", b"LOCALHOST:1")):
        assert asks(made(), "/reload", "POST", [(b"origin", origin)], parts(b""), host=host).status == 200


@pytest.mark.parametrize("header", [b"forwarded", b"x-forwarded-for"])
def test_a_run_is_reloaded_through_a_proxy_only_with_a_token(header):
    headers = [(header, b"10.0.0.1")]
    needed = (403, "token_needed", "reloading through a proxy needs a server with a token.")
    assert asks(made(), "/reload", "POST", headers, parts(b"")).error == needed
    assert asks(made(), "/v1/refusals", "POST", headers, parts(b"")).error[:2] == needed[:2]
    assert asks(made(), "/v1/about", headers=headers).status == 200
    with_token = [*headers, (b"authorization", b"Bearer secret")]
    assert asks(made(token="secret"), "/reload", "POST", with_token, parts(b"")).status == 200


def test_a_token_opens_everything_but_the_empty_pages():
    guarded = made(token="secret")
    for path in ("/v1/about", "/metrics", "/openapi.json", "/reload", "/statically"):
        for given in (b"", b"Bearer wrong", b"secret", "Bearer sécret".encode()):
            answer = asks(guarded, path, headers=[(b"authorization", given)])
            assert answer.error == (401, "unauthorized", "send the header 'Authorization: Bearer TOKEN'.")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert asks(guarded, path).status == 401
        opened = [(b"authorization", b"Bearer secret")]
        assert asks(guarded, path, headers=opened, host=b"any.example").status == 200
    for path in ("/", "/docs", "/static/page.css", "/healthz", "/readyz"):
        assert asks(guarded, path).status == 200


# --- how much


WAIT = (503, "overloaded", "too many requests at once; try again in a second.")


def test_more_requests_than_wait_are_refused_and_health_is_not():
    guarded = made(max_requests=4)

    async def crowd():
        paths = ["/v1/about"] * 20 + ["/healthz", "/readyz"]
        return await asyncio.gather(*(ask(guarded, path) for path in paths))

    *answers, health, ready = asyncio.run(crowd())
    assert [answer.status for answer in answers] == [200] * 4 + [503] * 16
    assert {answer.error for answer in answers[4:]} == {WAIT}
    assert all(answer.headers["retry-after"] == "1" for answer in answers[4:])
    assert health.status == ready.status == 200
    assert b"accord_refused_total 16.0" in generate_latest(guarded.meters.registry)
    assert asks(guarded).status == 200, "nothing stays counted"


def waiting(guarded):
    return guarded.meters.registry.get_sample_value("accord_requests_waiting")


def test_requests_being_answered_are_counted():
    seen = []

    async def counts(scope, receive, send):
        seen.append(waiting(guarded))
        await echo(scope, receive, send)

    guarded = made(counts)

    async def both():
        await asyncio.gather(ask(guarded), ask(guarded))

    asyncio.run(both())
    assert seen == [2, 1]
    assert waiting(guarded) == 0


def test_requests_take_turns_with_other_work_in_between():
    done, after_each = [], []

    async def records(scope, receive, send):
        done.append(scope["path"])
        await echo(scope, receive, send)

    guarded = made(records)

    async def crowd():
        tasks = [asyncio.ensure_future(ask(guarded, path)) for path in "abcd"]
        await asyncio.sleep(0)
        tasks[2].cancel()
        for _ in range(20):
            after_each.append(len(done))
            await asyncio.sleep(0)
        assert all(task.done() for task in tasks)

    asyncio.run(crowd())
    assert done == ["a", "b", "d"], "in the order in which they came; a cancelled one is skipped"
    assert all(later - one <= 1 for one, later in itertools.pairwise(after_each)), "one at a time"
    assert waiting(guarded) == 0


def test_an_answer_that_takes_too_long_is_given_up_but_a_reload_is_not():
    async def sleeps(scope, receive, send):
        await asyncio.sleep(0.1)
        await echo(scope, receive, send)

    guarded = made(sleeps, seconds=0.05)
    assert asks(guarded).error == (503, "timeout", "no answer within 0.05 seconds; request less.")
    assert asks(guarded, "/reload", "POST", (), parts(b"")).status == 200


def test_an_answer_that_has_begun_is_not_followed_by_an_error():
    async def breaks(scope, receive, send):
        await send(dict(START))
        raise RuntimeError

    assert len(asks(made(breaks)).sent) == 1


LARGE = (413, "too_large", "a body may have at most 100 bytes.")
SLOW = (408, "too_slow", "the body did not arrive within 0.05 seconds.")
CUT_SHORT = (400, "cut_short", "the connection ended before the body.")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_has_no_body_waits_for_none(method):
    assert asks(made(), method=method).status == 200


@pytest.mark.parametrize("length", [b"101", b"-1", b"many", b""])
def test_a_body_is_refused_by_the_length_that_it_claims(length):
    assert asks(made(max_body_bytes=100), "/", "POST", [(b"content-length", length)]).error == LARGE


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], SLOW),
        (parts(b"a", b"")[:1], SLOW),
        (parts(b"a" * 60, b"a" * 41), LARGE),
        ([*parts(b"a", b"")[:1], {"type": "http.disconnect"}], CUT_SHORT),
    ],
)
def test_bodies_are_bounded_in_size_and_time(messages, error):
    async def never(scope, receive, send):
        raise AssertionError("the body is not whole")

    guarded = made(never, seconds=0.05, max_body_bytes=100)
    assert asks(guarded, "/v1/recommendations", "POST", (), messages).error == error
    assert guarded.incomplete_bytes == 0


def test_a_body_arrives_whole_and_what_follows_is_of_the_connection():
    received = []

    async def listens(scope, receive, send):
        received.extend([await receive(), await receive()])
        await echo({"method": "GET"}, receive, send)

    gone = {"type": "http.disconnect"}
    messages = [*parts(b"a" * 60, b"b" * 40), gone]
    length = [(b"content-length", b"100")]
    assert asks(made(listens, max_body_bytes=100), "/", "POST", length, messages).status == 200
    assert received == [{"type": "http.request", "body": b"a" * 60 + b"b" * 40, "more_body": False}, gone]
    assert asks(made(), "/", "POST", (), [{"type": "http.request"}]).body == b"", "both keys may be left out"


def test_bodies_on_their_way_are_bounded_all_together():
    guarded = made(max_incomplete_bytes=100)
    assert posts(guarded, b"a" * 60, b"a" * 40).status == 200
    answer = posts(guarded, b"a" * 60, b"a" * 41, b"a")
    assert answer.error == (503, "overloaded", "too many large bodies at once; try again in a second.")
    assert b"accord_refused_total 1.0" in generate_latest(guarded.meters.registry)

    async def two():
        slow = asyncio.ensure_future(ask(guarded, "/", "POST", (), parts(b"a" * 60, b"")[:1]))
        await asyncio.sleep(0)
        other = await ask(guarded, "/", "POST", (), parts(b"a" * 41, b""))
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        return other

    assert asyncio.run(two()).status == 503
    assert guarded.incomplete_bytes == 0


def test_two_lengths_are_refused():
    both = [(b"transfer-encoding", b"chunked"), (b"content-length", b"1")]
    answer = posts(made(), b"a", headers=both)
    assert answer.error == (
        400, "bad_request", "a request has a Content-Length or a Transfer-Encoding, not both.",
    )  # fmt: skip
    assert answer.headers["connection"] == "close"
    assert all(posts(made(), b"a", headers=[one]).status == 200 for one in both)


# --- what is said, and what is not


def test_every_answer_has_each_security_header_once():
    async def caches(scope, receive, send):
        await send(START | {"headers": [(b"cache-control", b"max-age=60")]})

    names = [name.lower() for name in guard.SECURITY_HEADERS]
    assert sorted(name.decode() for name, _ in asks(made(caches)).sent[0]["headers"]) == sorted(names)
    assert asks(made(caches)).headers["cache-control"] == "max-age=60"
    refused = asks(made(token="secret"))
    assert refused.headers.keys() == {*names, "content-type", "content-length", "www-authenticate"}
    assert refused.headers["content-type"] == "application/json"
    assert refused.headers["content-length"] == str(len(refused.body))
    assert [message["type"] for message in refused.sent] == ["http.response.start", "http.response.body"]


def test_an_error_of_our_own_tells_nothing_of_itself(caplog):
    id_ = "secret"

    async def breaks(scope, receive, send):
        raise RuntimeError(id_)

    assert asks(made(breaks)).error == (500, "internal", "an error in the server; its log has the details.")
    first, *where, last = caplog.messages[0].splitlines()
    assert first == "an error in the server:"
    assert where[-2].endswith("in breaks")
    assert all(line.startswith("  ") for line in where)
    assert last == "RuntimeError", "what an error says may have ids in it"
    caplog.clear()
    asks(made(breaks, log_requests=True))
    assert caplog.messages[0].endswith("RuntimeError: secret")


def test_requests_are_logged_only_when_asked(caplog, monkeypatch):
    caplog.set_level("INFO", "accord.serve")
    asks(made(), query=b"user=u0002")
    assert not caplog.messages
    clock = iter([5.0, 5.25, 6.0, 6.5])
    monkeypatch.setattr(guard, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    asks(made(log_requests=True), query=b"user=u0002%0Anext\n\xff")
    asks(made(log_requests=True, token="secret"))
    assert caplog.messages == [
        "GET '/v1/about?user=u0002%0Anext\\n\N{REPLACEMENT CHARACTER}' 200 250.0 ms",
        "GET '/v1/about' 401 500.0 ms",
    ]


def test_answers_are_counted_by_route_and_status(monkeypatch):
    async def routes(scope, receive, send):
        if scope["path"] == "/v1/about":
            scope["route"] = SimpleNamespace(path="/v1/{name}")
            await echo(scope, receive, send)

    guarded, clock = made(routes), iter([5.0, 5.25, 6.0, 6.5])
    monkeypatch.setattr(guard, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    asks(guarded)
    asks(guarded, "/silent")
    said = generate_latest(guarded.meters.registry).decode().splitlines()
    assert 'accord_requests_total{route="/v1/{name}",status="200"} 1.0' in said
    assert 'accord_request_seconds_sum{route="/v1/{name}"} 0.25' in said
    assert 'accord_requests_total{route="none",status="500"} 1.0' in said, "it sent nothing"


def test_what_is_no_request_is_passed_on():
    passed = []

    async def lives(*arguments):
        passed.append(arguments)

    arguments = ({"type": "lifespan"}, object(), object())
    asyncio.run(made(lives)(*arguments))
    assert passed == [arguments]


def test_an_error_is_a_code_for_programs_and_a_sentence_for_people():
    error = ApiError(404, "unknown_user", "no user 'ü' was there.")
    assert json.loads(error.response.body) == {"error": {"code": "unknown_user", "message": "no user 'ü' was there."}}
    assert error.response.status_code == 404
    refused = overloaded("reloading", "try again in a second.").response
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def figures(meters):
    lines = [line for line in generate_latest(meters.registry).decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_requests_are_counted_by_route_and_status():
    meters = Meters()
    for status, seconds in ((200, 0.002), (200, 0.2), (404, 0.002)):
        meters.record("/v1/about", status, seconds)
    found = figures(meters)
    assert found['accord_requests_total{route="/v1/about",status="200"}'] == 2
    assert found['accord_requests_total{route="/v1/about",status="404"}'] == 1
    assert found['accord_request_seconds_bucket{le="0.0025",route="/v1/about"}'] == 2
    assert found['accord_request_seconds_count{route="/v1/about"}'] == 3


def test_each_server_counts_for_itself():
    one, other = Meters(), Meters()
    one.refused.inc()
    assert figures(one)["accord_refused_total"] == 1
    assert figures(other)["accord_refused_total"] == 0
