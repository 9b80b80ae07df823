"""Starting and stopping the server."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import sys
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI

from accord.config import full_name
from accord.errors import Argument, InputError
from accord.serve.api import make_app
from accord.serve.connection import MAX_CONNECTIONS, Connection, connections_allowed
from accord.serve.guard import Meters, Rules
from accord.serve.snapshots import Holder

MAX_HEADER_BYTES = 2**16  # a thousand items to exclude fit into the first line
MIN_TOKEN_LENGTH = 16  # if other machines can reach the server
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10  # for requests to end when the server stops
ACCEPTED_AT_ONCE = 32  # connections: few, so that a rush of new ones does not delay the others
log = logging.getLogger("accord.serve")


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
    audit: Path | None = None,
    log_requests: bool = False,
    allow_imports: bool = False,
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
    holder = Holder(run, Meters(), audit, allow_imports)
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
