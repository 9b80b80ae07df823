"""One connection: closed if its client takes too long to send a request or to receive an answer.

uvicorn limits neither: it waits forever for the end of a request, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import sys
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # for the headers of a request to arrive, or the rest of a request that was answered early
RECEIVE_SECONDS = 30.0  # for a client to receive an answer
MAX_UNSENT_BYTES = 2**27  # of answers that clients have not received, in total
MAX_CONNECTIONS = 2000
OTHER_FILES = 1000  # open files for new connections that are not counted yet, and for everything else


class Connection(H11Protocol):
    """uvicorn's connection with time limits."""

    limit: ClassVar[int] = MAX_CONNECTIONS  # with one more, the connection that has been idle for longest is closed
    _request_timer: asyncio.TimerHandle | None = None  # runs while the client has to send the rest of a request
    _receive_timer: asyncio.TimerHandle | None = None  # runs while the client does not receive an answer
    _idle_since = 0.0  # when it was opened, or got its last answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._request_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)
        self._idle_since = self.loop.time()
        if len(self.connections) > self.limit:
            idle = [(one._idle_since, id(one), one) for one in self._all() if one._is_idle]
            min(idle)[-1].transport.abort()  # this one is idle too

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE or (state is h11.SEND_BODY and self._is_answered):
            self._request_timer = self._request_timer or self.loop.call_later(HEADER_SECONDS, self.transport.close)
        else:
            self._request_timer = _stop(self._request_timer)

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_timer, self._receive_timer = _stop(self._request_timer), _stop(self._receive_timer)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer has begun
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._receive_timer = self.loop.call_later(RECEIVE_SECONDS, self.transport.abort)
        slow = sorted((timer.when(), id(one), one) for one in self._all() if (timer := one._receive_timer) is not None)
        while sum(one.transport.get_write_buffer_size() for *_, one in slow) > MAX_UNSENT_BYTES:
            slow.pop(0)[-1].transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._receive_timer = _stop(self._receive_timer)

    def _all(self) -> list[Connection]:
        return [one for one in self.connections if isinstance(one, Connection)]

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    @property
    def _is_idle(self) -> bool:
        complete = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        return not self.transport.is_closing() and (self._is_answered or not complete)


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None


def connections_allowed() -> int:
    """How many connections the open files of this process allow, once their limit is raised as far as possible."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    wanted = MAX_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(soft, wanted) - OTHER_FILES)
