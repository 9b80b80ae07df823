"""Bad clients: every kind can be played, and what the server must not answer is noticed."""

from __future__ import annotations

import asyncio
import os

import pytest
from bad_clients import BadClients, Wrong
from traffic import EVERY_ANSWER, Clock

REFUSED = b"HTTP/1.1 401 Unauthorized\r\n" + EVERY_ANSWER + b"\r\n"


@pytest.fixture
def clients():
    return BadClients(0, Clock(os.getpid()))


def test_every_kind_can_be_played(clients):
    for kind, (_, at_once, _) in clients.KINDS.items():
        assert asyncio.iscoroutinefunction(getattr(clients, kind)), kind
        assert at_once > 0


def test_the_status_the_headers_and_the_text_of_an_answer_are_checked(clients):
    clients._expect(REFUSED, 401)
    for said, statuses in (
        (REFUSED, (413, 503)),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", (401,)),
        (REFUSED + b"Traceback (most recent call last)", (401,)),
        (b"not HTTP", (401,)),
    ):
        with pytest.raises(Wrong, match="answered"):
            clients._expect(said, *statuses)


def test_a_server_that_answers_a_slow_body_otherwise_is_noticed(clients):
    async def play():
        async def answer(reader, writer):
            await reader.read(10)
            writer.write(REFUSED)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        clients.port = server.sockets[0].getsockname()[1]
        async with server:
            await clients.slow_body()

    with pytest.raises(Wrong, match="401 Unauthorized"):
        asyncio.run(play())
