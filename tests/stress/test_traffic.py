"""Clients of the load campaign: what they send, and that no wrong answer passes."""

from __future__ import annotations

import asyncio
import os

import pytest
import traffic

HEAD = b"HTTP/1.1 200 OK\r\n" + traffic.EVERY_ANSWER


def test_a_request_says_how_long_its_body_is():
    sent = traffic.request("POST", "/v1/x", {"k": 5}, token="t")
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /v1/x HTTP/1.1"
    assert b"Authorization: Bearer t" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == b'{"k": 5}'
    assert b"Content-Length" not in traffic.request("GET", "/")


def test_an_answer_may_come_in_pieces():
    async def ask():
        line = traffic.Line()
        line._answer = asyncio.get_running_loop().create_future()
        whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnever"
        for place in range(len(whole)):
            assert not line._answer.done()
            line.data_received(whole[place : place + 1])
        return await line._answer

    answer = asyncio.run(ask())
    assert (answer.status, answer.body) == (404, b"never")


def test_a_lost_connection_is_an_error():
    async def ask():
        line = traffic.Line()
        line._answer = asyncio.get_running_loop().create_future()
        line.connection_lost(None)
        return await line._answer

    with pytest.raises(ConnectionError):
        asyncio.run(ask())


@pytest.mark.parametrize("change", ["body", "other run", "status", "headers"])
def test_a_wrong_answer_is_seen(change: str) -> None:
    """The campaign proves nothing if it cannot fail."""
    question = traffic.Question(b"GET / HTTP/1.1\r\n\r\n", {"gmf": b"right", "mf": b"of the other run"})
    given = {
        "body": traffic.Answer(200, HEAD, b"wrong"),
        "other run": traffic.Answer(200, HEAD, b"of the other run"),
        "status": traffic.Answer(500, HEAD, b"right"),
        "headers": traffic.Answer(200, b"HTTP/1.1 200 OK\r\n", b"right"),
    }[change]
    assert counts_of(question, given, serves="gmf") == {"wrong": 1}


def test_while_a_reload_is_under_way_both_runs_are_right():
    question = traffic.Question(b"GET / HTTP/1.1\r\n\r\n", {"gmf": b"right", "mf": b"of the other run"})
    assert counts_of(question, traffic.Answer(200, HEAD, b"of the other run"), serves=None) == {"right": 1}
    assert counts_of(question, traffic.Answer(200, HEAD, b"wrong"), serves=None) == {"wrong": 1}


def test_a_refusal_must_say_when_to_come_back():
    question = traffic.Question(b"GET / HTTP/1.1\r\n\r\n", {"gmf": b"right"})
    for head, kind in ((HEAD + b"retry-after: 1\r\n", "refused"), (HEAD, "wrong")):
        assert counts_of(question, traffic.Answer(503, head, b"busy"), serves="gmf") == {kind: 1}


def counts_of(question, given, serves):
    async def answer(_: bytes) -> object:
        return given

    clients = traffic.Clients(0, [question], traffic.Clock(os.getpid()))
    clients.serves = serves
    clients._answer_to = answer
    asyncio.run(clients.ask_one(question))
    return clients.tally.counts
