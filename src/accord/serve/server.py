"""Starting and stopping the server. Its connections are uvicorn's; slow clients are for a proxy in front to close."""

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
from accord.serve.guard import Meters, Rules
from accord.serve.snapshots import Holder

MAX_HEADER_BYTES = 2**16  # a thousand items to exclude fit into the first line
MIN_TOKEN_LENGTH = 16  # if other machines can reach the server
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10  # for requests to end when the server stops
log = logging.getLogger("accord.serve")


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
        why = f"cannot listen on {host} port {port} ({reason}); give another "
        raise InputError(why, Argument("host"), " or ", Argument("port"), ".") from None
    # otherwise the body of an answer waits 40 ms, until the client acknowledges its headers
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def configuration(app: FastAPI) -> uvicorn.Config:
    """The settings of uvicorn: no answer names the software."""
    return uvicorn.Config(
        app, interface="asgi3", loop="asyncio", http="h11", ws="none", lifespan="on", log_config=None,
        access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS, h11_max_incomplete_event_size=MAX_HEADER_BYTES,
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
    items: Path | None = None,
) -> int:
    """Serve until a signal arrives; the exit code is 0, or 130 after Ctrl-C."""
    if not is_loopback(host):
        if token is None:
            how = "set ACCORD_TOKEN, and let clients send 'Authorization: Bearer TOKEN'."
            raise InputError(Argument("host", host), f" lets other machines connect, so it needs a token: {how}")
        if len(token) < MIN_TOKEN_LENGTH:
            how = f" give {MIN_TOKEN_LENGTH} characters or more, for example from `openssl rand -hex 16`."
            raise InputError("the token is too short to be safe: for ", Argument("host", host), how)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="accord: %(message)s")
    log.setLevel(logging.INFO)
    for library in ("uvicorn.error", "asyncio"):  # a line for each bad request could fill a disk
        logging.getLogger(library).setLevel(logging.ERROR)
    torch.set_num_threads(1)  # a request is too small for several threads
    holder = Holder(run, Meters(), allow_imports, refusals, items)
    name = f"[{host}]" if ":" in host else host.lower()
    rules = Rules(token, Rules().hosts | {name}, log_requests=log_requests)
    with listen(host, port) as listener:
        about, address = holder.snapshot.about, f"http://{name}:{listener.getsockname()[1]}"
        log.info("serving %s (%s, %s)", run, about["dataset"], full_name(about["model"], about["method"]))
        log.info("page %s/ , API %s/docs ; Ctrl-C stops", address, address)
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once the server has stopped
        code = 0
        try:
            uvicorn.Server(configuration(make_app(holder, rules, watch))).run([listener])
        except KeyboardInterrupt:
            code = 130
    log.info("stopped")
    return code
