"""Starting and stopping the server."""

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

import torch
import uvicorn

from accord.config import full_name
from accord.errors import InputError
from accord.serve.api import make_app
from accord.serve.connection import ACCEPTED_AT_ONCE, MOST_CONNECTIONS, Connection, connections_allowed
from accord.serve.guard import App, Rules
from accord.serve.holder import Holder
from accord.serve.meters import Meters

MOST_HEADER_BYTES = Rules.most_header_bytes  # a thousand items to exclude fit into the first line
SHORTEST_TOKEN = 16  # characters, if other machines can reach the server
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10  # for requests to end when the server stops
log = logging.getLogger("accord.serve")


class Server(uvicorn.Server):
    """Stops on a signal once open requests are answered; the signal is not raised a second time."""

    stopped_by: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(MOST_CONNECTIONS)  # so many may wait, few of which are accepted at once

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
        raise InputError(f"--port {port} is not a port; give a number from 0 to 65535.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen on {host} port {port} ({reason}); give another --host or --port.") from None


def configuration(app: App) -> uvicorn.Config:
    """The settings of uvicorn: it does not name itself, and connections are of our own class."""
    return uvicorn.Config(
        app, interface="asgi3", http=Connection, ws="none", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="on", backlog=ACCEPTED_AT_ONCE, h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )  # fmt: skip


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
            f"--host {host} lets other machines in, so it needs a token: set ACCORD_TOKEN, and send it as"
            " 'Authorization: Bearer TOKEN'."
        )
    if not is_loopback(host) and token is not None and len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"the token is too short to be safe: for --host {host} give {SHORTEST_TOKEN} characters or more, for"
            " example from `openssl rand -hex 16`."
        )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="accord: %(message)s")
    log.setLevel(logging.INFO)
    for library in ("uvicorn.error", "asyncio"):  # a line for each bad request could fill a disk
        logging.getLogger(library).setLevel(logging.ERROR)
    torch.set_num_threads(1)  # a request is too small for several threads
    holder = Holder(run, Meters(), audit, allow_imports)
    Connection.most = connections_allowed()
    with listen(host, port) as listening:
        where = f"[{host}]" if ":" in host else host
        about = holder.snapshot.about
        log.info("serving %s (%s, %s)", run, about["dataset"], full_name(about["model"], about["method"]))
        log.info("page http://%s:%d/ , API http://%s:%d/docs ; Ctrl-C stops", *(where, listening.getsockname()[1]) * 2)
        rules = Rules(token, Rules().hosts | {host.lower()}, log_requests=log_requests)
        server = Server(configuration(make_app(holder, rules, watch)))
        asyncio.run(server.serve([listening]))
    log.info("stopped")
    return 130 if server.stopped_by == signal.SIGINT else 0
