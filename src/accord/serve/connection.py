"""One connection: closed if its client takes too long to send a request or to receive an answer.

uvicorn limits neither: it waits forever for the end of a request and for a client that does not read.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # for the headers of a request to arrive, or the rest of a request that was answered early
RECEIVE_SECONDS = 30.0  # for a client to receive an answer
MAX_UNSENT_BYTES = 2**27  # of answers that clients have not received, in total
MAX_CONNECTIONS = 500  # fewer than the 1,024 open files that most systems allow a process


class Connection(H11Protocol):
    """uvicorn's connection with time limits."""

    _request_timer: asyncio.TimerHandle | None = None  # runs while the client has to send the rest of a request
    _receive_timer: asyncio.TimerHandle | None = None  # runs while the client does not receive an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._request_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [(timer.when(), one) for one in self._all() if (timer := one._idle_timer) is not None]
            min(idle, key=lambda pair: pair[0])[1].transport.abort()  # this one is idle too

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state, is_answered = self.conn.their_state, self.cycle is not None and self.cycle.response_complete
        if state is h11.IDLE or (state is h11.SEND_BODY and is_answered):
            self._request_timer = self._request_timer or self.loop.call_later(HEADER_SECONDS, self.transport.close)
        else:
            self._request_timer = _stop(self._request_timer)

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
    def _idle_timer(self) -> asyncio.TimerHandle | None:
        """Runs while no request is being answered: the connection whose time ends first has been idle for longest."""
        return None if self.transport.is_closing() else self._request_timer or self.timeout_keep_alive_task


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
