"""One connection: what a client may keep the server waiting for, and what is given up when there are too many."""

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
TAKE_SECONDS = 30.0  # for a client to take an answer
MOST_UNTAKEN = 2**27  # bytes of answers that clients have not taken, all together
MOST_CONNECTIONS = 2000
ACCEPTED_AT_ONCE = 32  # few, so that a crowd at the door keeps nobody inside waiting
OTHER_FILES = 1000  # of connections just accepted and not counted yet, and others
NOT_HTTP = ApiError(400, "bad_request", "this is not a request of HTTP/1.1.")


class Connection(H11Protocol):
    """Ends when a request does not come whole in time, or an answer is not taken."""

    most: ClassVar[int] = MOST_CONNECTIONS  # one more, and the one that has been of no use for longest makes room

    _late: asyncio.TimerHandle | None = None  # set while the client owes us the rest of a request
    _untaken: asyncio.TimerHandle | None = None  # set while it leaves an answer lying
    _since = 0.0  # when it was made, or last had its answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # else an answer's body waits for the client to acknowledge its headers, which takes 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._since = self.loop.time()
        self._await_the_client()
        if len(self.connections) > self.most and not any(one.transport.is_closing() for one in self.connections):
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.ERROR:  # it has its answer; what still comes is not looked at
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
        self._was_taken()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the error that all mistakes get, unless an answer is already on its way."""
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
            self._await_the_client()  # closed at once, while more comes in, the answer would be lost on its way
            with suppress(OSError):  # it has gone
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
        """Whose request has come whole is answered; of the others the oldest go, some at once, as looking is slow."""
        others = sorted((one for one in self._all() if one._is_of_no_use), key=lambda one: one._since)
        for one in others[: max(1, self.most // 20)]:
            one.transport.abort()

    @property
    def _is_of_no_use(self) -> bool:
        whole = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        return not self.transport.is_closing() and (not whole or self._is_answered)

    # --- clients that take nothing

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = self.loop.call_later(TAKE_SECONDS, self.transport.abort)
        lying = sorted((one._untaken.when(), id(one), one) for one in self._all() if one._untaken is not None)
        while sum(one.transport.get_write_buffer_size() for *_, one in lying) > MOST_UNTAKEN:
            lying.pop(0)[-1].transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_taken()

    def _was_taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None


def connections_allowed() -> int:
    """How many connections the open files of this process allow, once their limit is raised as far as it may be."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    wanted = MOST_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(soft, wanted) - wanted + MOST_CONNECTIONS)
