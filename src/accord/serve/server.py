"""Listening, stopping, and connections that send nothing."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h11
import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from accord.errors import InputError
from accord.serve.api import make_app
from accord.serve.guard import Rules
from accord.serve.holder import Holder
from accord.serve.meters import Meters

HEADER_SECONDS = 10.0  # for the first line and headers of a request to arrive
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10  # for requests to end when the server stops
MOST_CONNECTIONS = 2000
log = logging.getLogger("accord.serve")


class Connection(H11Protocol):
    """Is closed when a request that was begun does not come whole in time, or when there are too many."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # else an answer's body waits for the client to acknowledge its headers, which takes 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:  # the headers are not whole yet
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Stops on a signal when the requests at hand are answered; the signal is not raised a second time."""

    stopped_by: int | None = None

    def handle_exit(self, sig: int, frame: object) -> None:
        self.stopped_by = sig
        super().handle_exit(sig, frame)  # type: ignore[arg-type]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
    except OverflowError:
        raise InputError(f"--port {port} is no port; give a number from 0 to 65535.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen on {host} port {port} ({reason}); give another --host or --port.") from None


def serve(
    run: Path,
    host: str,
    port: int,
    token: str | None = None,
    watch: bool = False,
    audit: Path | None = None,
    log_requests: bool = False,
    allow_imports: bool = False,
) -> int:
    """Serve until a signal comes; the exit code is 0, or 130 after Ctrl-C."""
    if not is_loopback(host) and token is None:
        raise InputError(
            f"--host {host} lets others in, so it needs a token: set ACCORD_TOKEN, and send it as"
            " 'Authorization: Bearer TOKEN'."
        )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="accord: %(message)s")
    log.setLevel(logging.INFO)
    torch.set_num_threads(1)  # one request is too small to share out
    holder = Holder(run, Meters(), audit, allow_imports)
    with listen(host, port) as listening:
        where = f"[{host}]" if ":" in host else host
        about = holder.snapshot.about
        log.info("serving %s (%s, %s + %s)", run, about["dataset"], about["model"], about["method"])
        log.info("page http://%s:%d/ , API http://%s:%d/docs ; Ctrl-C stops", *(where, listening.getsockname()[1]) * 2)
        rules = Rules(token, Rules().hosts | {host.lower()}, log_requests=log_requests)
        config = uvicorn.Config(
            make_app(holder, rules, watch), http=Connection, ws="none", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS, lifespan="on", backlog=MOST_CONNECTIONS,
        )  # fmt: skip
        server = Server(config)
        asyncio.run(server.serve([listening]))
    log.info("stopped")
    return 130 if server.stopped_by == signal.SIGINT else 0
