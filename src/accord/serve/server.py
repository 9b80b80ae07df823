"""Starting and stopping the server, and its connections.

A connection is closed if its client takes too long to send a request or to receive an answer: uvicorn waits forever
for the end of a request, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import ClassVar

import h11
import torch
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from accord.config import full_name
from accord.errors import Argument, InputError
from accord.serve.api import make_app
from accord.serve.guard import Meters, Rules
from accord.serve.snapshots import Holder

MAX_HEADER_BYTES = 2**16  # a thousand items to exclude fit into the first line
MIN_TOKEN_LENGTH = 16  # if other machines can reach the server
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10  # for requests to end when the server stops
ACCEPTED_AT_ONCE = 32  # connections: few, so that a rush of new ones does not delay the others
log = logging.getLogger("accord.serve")
HEADER_SECONDS = 10.0  # for the headers of a request to arrive, or the rest of a request that was answered early
RECEIVE_SECONDS = 30.0  # for a client to receive an answer
MAX_UNSENT_BYTES = 2**27  # of answers that clients have not received, in total
MAX_CONNECTIONS = 2000
OTHER_FILES = 1000  # open files for new connections that are not counted yet, and for everything else


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(MAX_CONNECTIONS)  # so many can wait, of which few are accepted at once


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OverflowError:
        raise InputError(Argument("port", port), " is not a port; give a number from 0 to 65535.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot listen on {host} port {port} ({reason}); give another ",
            Argument("host"),
            " or ",
            Argument("port"),
            ".",
        ) from None
    # otherwise the body of an answer waits 40 ms, until the client acknowledges its headers
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def configuration(app: FastAPI) -> uvicorn.Config:
    """The settings of uvicorn: connections have time limits, and no answer names the software."""
    return uvicorn.Config(
        app, interface="asgi3", loop="asyncio", http=Connection, ws="none", lifespan="on", log_config=None,
        access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS, backlog=ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )  # fmt: skip


def serve(
    run: Path,
    host: str,
    port: int,
    token: str | None = None,
    watch: bool = False,
    log_requests: bool = False,
    allow_imports: bool = False,
    refusals: Path | None = None,
) -> int:
    """Serve until a signal arrives; the exit code is 0, or 130 after Ctrl-C."""
    if not is_loopback(host):
        if token is None:
            raise InputError(
                Argument("host", host),
                " lets other machines connect, so it needs a token: set ACCORD_TOKEN, and let clients send"
                " 'Authorization: Bearer TOKEN'.",
            )
        if len(token) < MIN_TOKEN_LENGTH:
            raise InputError(
                "the token is too short to be safe: for ",
                Argument("host", host),
                f" give {MIN_TOKEN_LENGTH} characters or more, for example from `openssl rand -hex 16`.",
            )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="accord: %(message)s")
    log.setLevel(logging.INFO)
    for library in ("uvicorn.error", "asyncio"):  # a line for each bad request could fill a disk
        logging.getLogger(library).setLevel(logging.ERROR)
    torch.set_num_threads(1)  # a request is too small for several threads
    Connection.limit = connections_allowed()
    holder = Holder(run, Meters(), allow_imports, refusals)
    name = f"[{host}]" if ":" in host else host.lower()
    rules = Rules(token, Rules().hosts | {name}, log_requests=log_requests)
    with listen(host, port) as listener:
        about, address = holder.snapshot.about, f"http://{name}:{listener.getsockname()[1]}"
        log.info("serving %s (%s, %s)", run, about["dataset"], full_name(about["model"], about["method"]))
        log.info("page %s/ , API %s/docs ; Ctrl-C stops", address, address)
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once the server has stopped
        code = 0
        try:
            Server(configuration(make_app(holder, rules, watch))).run([listener])
        except KeyboardInterrupt:
            code = 130
    log.info("stopped")
    return code


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
