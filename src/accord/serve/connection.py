"""One connection: how long a client may keep the server waiting, and which connections go when there are too many."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from accord.serve.errors import ApiError
from accord.serve.guard import HEADERS

HEADER_SECONDS = 10.0  # for the first line and headers of a request to arrive, and for the rest of one already answered
RECEIVE_SECONDS = 30.0  # for a client to receive an answer
MOST_UNRECEIVED = 2**27  # bytes of answers that clients have not received, in all
MOST_CONNECTIONS = 2000
ACCEPTED_AT_ONCE = 32  # few, so that a rush of new connections does not keep the others waiting
OTHER_FILES = 1000  # open files for connections just accepted and not counted yet, and for everything else
NOT_HTTP = ApiError(400, "bad_request", "this is not an HTTP/1.1 request.")


class Connection(H11Protocol):
    """Closes when a request does not arrive in time, or an answer is not received."""

    most: ClassVar[int] = MOST_CONNECTIONS  # with one more, the connection that has been idle for longest is closed

    _late: asyncio.TimerHandle | None = None  # set while the client owes us the rest of a request
    _unreceived: asyncio.TimerHandle | None = None  # set while it does not receive an answer
    _since = 0.0  # when it was opened, or last got an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # else an answer's body waits for the client to acknowledge its headers, which takes 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._since = self.loop.time()
        self._await_the_client()
        if len(self.connections) > self.most and not any(one.transport.is_closing() for one in self.connections):
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.ERROR:  # it has its answer; whatever still comes is ignored
            return
        super().data_received(data)
        state = self.conn.their_state
        if state in (h11.IDLE, h11.ERROR) or (state is h11.SEND_BODY and self._is_answered):
            self._await_the_client()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._was_received()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets an error like any other, unless an answer is already on its way."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
        else:
            own = {"Content-Type": "application/json", "Content-Length": str(len(NOT_HTTP.body)), "Connection": "close"}
            headers = [*((name.encode(), value.encode()) for name, value in own.items()), *HEADERS]
            parts = (
                h11.Response(status_code=NOT_HTTP.status, headers=headers, reason=b"Bad Request"),
                h11.Data(data=NOT_HTTP.body),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
            if self.cycle is not None:
                self.cycle.disconnected = True  # what the body begins as was a request: its answer is this one
            self._await_the_client()  # closed at once, while more arrives, the answer would be lost
            with suppress(OSError):  # the client is gone
                self.transport.write_eof()

    def _all(self) -> list[Connection]:
        return [one for one in self.connections if isinstance(one, Connection)]

    # --- clients that send nothing, or slowly

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _await_the_client(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _make_room(self) -> None:
        """Close the oldest connections without a complete request: several at once, as sorting is slow."""
        others = sorted((one for one in self._all() if one._is_idle), key=lambda one: one._since)
        for one in others[: max(1, self.most // 20)]:
            one.transport.abort()

    @property
    def _is_idle(self) -> bool:
        whole = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        return not self.transport.is_closing() and (not whole or self._is_answered)

    # --- clients that receive nothing

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unreceived = self.loop.call_later(RECEIVE_SECONDS, self.transport.abort)
        pending = sorted((one._unreceived.when(), id(one), one) for one in self._all() if one._unreceived is not None)
        while sum(one.transport.get_write_buffer_size() for *_, one in pending) > MOST_UNRECEIVED:
            pending.pop(0)[-1].transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_received()

    def _was_received(self) -> None:
        if self._unreceived is not None:
            self._unreceived.cancel()
            self._unreceived = None


def connections_allowed() -> int:
    """How many connections the open files of this process allow, once their limit is raised as far as possible."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    wanted = MOST_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(soft, wanted) - wanted + MOST_CONNECTIONS)
