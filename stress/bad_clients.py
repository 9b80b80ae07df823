"""Clients that do what a server must survive: each knows how the server should react, and reports when it did not."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar

from traffic import EVERY_ANSWER, TELLING, Clock, request

SLACK = 25.0  # seconds beyond the server's own limit: it is overloaded
LIST = request("GET", "/v1/recommendations?user=u0001")
MANY = request("POST", "/v1/recommendations", {"users": [f"u{n:04}" for n in range(1, 101)], "k": 400, "why": True})
TLS = b"\x16\x03\x01\x00\xf1\x01\x00\x00\xed\x03\x03" + bytes(range(200))

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Wrong(Exception):
    """The server did what it should not."""


class BadClients:
    """Several of each kind at once, again and again until they are stopped."""

    KINDS: ClassVar[dict[str, tuple[str, int, str]]] = {
        "slow_body": ("a body a byte a second", 20, "408, or refused"),
        "no_http": ("bytes that are not HTTP, and requests with bytes changed", 4, "an error or closed"),
        "too_large": ("a body of more than 1 MB", 2, "413, or refused"),
        "gone": ("gone in the middle of a request or of an answer", 4, "nothing"),
        "wrong_token": ("a wrong token", 2, "401"),
    }

    def __init__(self, port: int, clock: Clock, seed: int = 0) -> None:
        self.port, self.clock, self._draw = port, clock, random.Random(seed)
        self.tried: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.wrong: list[tuple[str, str]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._again_and_again(kind, number))
            for kind, (_, number, _) in self.KINDS.items()
            for number in range(number)
        ]

    async def stop(self) -> None:
        """Those who are in the middle of it are not counted as ended."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _again_and_again(self, kind: str, number: int) -> None:
        do: Callable[[], Awaitable[None]] = getattr(self, kind)
        await asyncio.sleep(0.1 + 0.05 * number)
        while True:
            self.tried[kind] += 1
            try:
                await do()
                self.ended[kind] += 1
            except Wrong as error:
                self.wrong.append((kind, str(error)))
            except OSError as error:
                self.wrong.append((kind, f"{type(error).__name__}: {error}"))

    # --- kinds

    async def slow_body(self) -> None:
        said = await self._drip(request("POST", "/v1/recommendations", {"users": ["u0001"] * 20})[:-100], 20)
        self._expect(said, 408, 503)

    async def no_http(self) -> None:
        draw = self._draw
        sent = bytearray(LIST)
        for _ in range(draw.randint(1, 8)):
            sent[draw.randrange(len(sent))] = draw.randrange(256)
        sent = draw.choice((bytes(sent), TLS, draw.randbytes(draw.randint(1, 3000)) + b"\r\n\r\n"))
        reader, writer = await self._connect()
        writer.write(sent)
        with suppress(OSError):
            writer.write_eof()
        said = await self._rest(reader, writer, 40)
        if said and not said.endswith(b"Invalid HTTP request received."):
            self._expect(said, *range(200, 300), *range(400, 500), 503)
        await asyncio.sleep(0.2)

    async def too_large(self) -> None:
        whole = b" " * (2**20 + 1)
        head = b"POST /v1/recommendations HTTP/1.1\r\nConnection: close\r\n" + LIST.partition(b"\r\n")[2][:-2]
        if self._draw.random() < 0.5:
            sent = head + f"Content-Length: {len(whole)}\r\n\r\n".encode() + whole
        else:
            sent = (
                head + b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(whole):x}\r\n".encode() + whole + b"\r\n0\r\n\r\n"
            )
        reader, writer = await self._connect()
        with suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
        if said := await self._rest(reader, writer, 40):
            self._expect(said, 413, 503)
        await asyncio.sleep(1)

    async def gone(self) -> None:
        reader, writer = await self._connect()
        sent = self._draw.choice(
            (LIST, LIST[:30], MANY[:-20], request("POST", "/v1/recommendations", {"users": ["u0001"] * 50}))
        )
        writer.write(sent)
        if self._draw.random() < 0.5:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.3):
                    await reader.read(10)
        # the connection is reset, not closed
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await asyncio.sleep(0.3)

    async def wrong_token(self) -> None:
        sent = request("GET", "/v1/recommendations?user=u0001", token="token-of-the-load-campaigm")
        reader, writer = await self._connect()
        writer.write(sent.replace(b"Host:", b"Connection: close\r\nHost:", 1))
        self._expect(await self._rest(reader, writer, 40), 401)
        await asyncio.sleep(1)

    # --- how

    async def _connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def _drip(self, sent: bytes, seconds: float) -> bytes:
        """Send this, then a byte a second until the server ends it."""
        reader, writer = await self._connect()
        writer.write(sent)

        async def drip() -> None:
            while True:
                await asyncio.sleep(1)
                writer.write(b"a")

        dripping = asyncio.create_task(drip())
        try:
            return await self._rest(reader, writer, seconds)
        finally:
            dripping.cancel()

    async def _rest(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> bytes:
        """What the server says until it ends the connection, which it has to do in time."""
        said, began = b"", self.clock.now()
        try:
            while True:
                try:
                    async with asyncio.timeout(5):
                        part = await reader.read(2**16)
                except TimeoutError:
                    if (passed := self.clock.since(began)) > seconds + SLACK:
                        raise Wrong(f"still open after {passed:.0f} s, having said {said[:100]!r}") from None
                    continue
                if not part:
                    break
                said += part
        except ConnectionError:  # reset
            pass
        finally:
            writer.transport.abort()
        return said

    def _expect(self, said: bytes, *statuses: int) -> None:
        """One of the statuses, with the headers that every answer has, and nothing about the server."""
        status = int(said[9:12]) if said.startswith(b"HTTP/1.1 ") else 0
        if status not in statuses or EVERY_ANSWER not in said or any(word in said for word in TELLING):
            raise Wrong(f"answered {said[:300]!r}")
