"""What protects the API: who may ask, how much at once, for how long; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from accord.serve.errors import ApiError, internal, overloaded
from accord.serve.meters import Meters

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PROBES = ("/healthz", "/readyz")
OPEN = (*PROBES, "/", "/docs")  # without a token: they say nothing about the data
OPEN_FOLDER = "/static/"
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]
log = logging.getLogger("accord.serve")


@dataclass(frozen=True)
class Rules:
    """The limits of a server. Without a token only requests to `hosts` are answered."""

    token: str | None = None
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
    most_bytes: int = 2**20  # of a body
    most_header_bytes: int = 2**16  # of the path with its parameters, and of all headers
    most_arriving: int = 2**26  # bytes of incomplete bodies, in all
    most_waiting: int = 128  # requests at once; more are refused, so that nobody waits long
    seconds: float = 10.0  # for a body to arrive, and for an answer
    log_requests: bool = False


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, rules: Rules, meters: Meters) -> None:
        self.app, self.rules, self.meters = app, rules, meters
        self.waiting = 0  # complete requests without an answer yet; those that are still arriving do not count
        self.arriving = 0
        self._turns = _Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, answer = time.perf_counter(), _Answer(send)
        try:
            await self._answer(scope, receive, answer)
        except ApiError as error:
            await answer.error(error)
        except Exception as error:
            self._log_error(error)
            await answer.error(internal())
        finally:
            seconds = time.perf_counter() - began
            self.meters.answered(getattr(scope.get("route"), "path", "none"), answer.status, seconds)
            if self.rules.log_requests:
                query = scope["query_string"].decode("ascii", "replace")
                path = f"{scope['path']}?{query}" if query else scope["path"]
                log.info("%s %r %d %.1f ms", scope["method"], path, answer.status, 1000 * seconds)

    def _log_error(self, error: Exception) -> None:
        """Log where it happened; its message may have ids in it, so that is logged only if requests are."""
        message = traceback.format_exception_only(error) if self.rules.log_requests else [type(error).__name__]
        where = "".join(traceback.format_tb(error.__traceback__))
        log.error("an error of the server itself:\n%s%s", where, "".join(message).rstrip())

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        path, rules = scope["path"], self.rules
        self._check_size(scope)
        self._check_sender(scope)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            receive = await self._whole_body(scope, receive)
        with self._counted():
            if path not in PROBES:
                if self.waiting > rules.most_waiting:
                    raise self._refusal("too many requests at once; try again in a second.")
                await self._turns.take()
            try:
                async with asyncio.timeout(None if path == "/reload" else rules.seconds):
                    await self.app(scope, receive, answer)
            except TimeoutError:
                raise overloaded("timeout", f"no answer within {rules.seconds:g} seconds; ask for less.") from None

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        self.meters.waiting.set(self.waiting)
        try:
            yield
        finally:
            self.waiting -= 1
            self.meters.waiting.set(self.waiting)

    def _refusal(self, message: str) -> ApiError:
        self.meters.refused.inc()
        return overloaded("overloaded", message)

    def _check_size(self, scope: Scope) -> None:
        """The connection bounds only what it has not read whole: what arrives at once may be longer."""
        most, close = self.rules.most_header_bytes, {"Connection": "close"}
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > most:
            raise ApiError(
                414, "too_long", f"the path may have at most {most} bytes; send what is long in a body.", close
            )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > most:
            raise ApiError(431, "too_long", f"the headers may have at most {most} bytes.", close)

    def _check_sender(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if b"transfer-encoding" in headers and b"content-length" in headers:
            # a proxy before us may believe the one, and take the end of the body for a request of somebody else
            message = "a request has a Content-Length or a Transfer-Encoding, not both."
            raise ApiError(400, "bad_request", message, {"Connection": "close"})
        host = headers.get(b"host", b"").decode("latin-1")
        if self.rules.token is None:
            # otherwise the browser would let in a page of another site whose name was made to point here
            if _hostname(host) not in self.rules.hosts:
                raise ApiError(400, "wrong_host", "this server answers only under its own name or address.")
            if scope["path"] == "/reload" and (b"forwarded" in headers or b"x-forwarded-for" in headers):
                raise ApiError(403, "token_needed", "through a proxy this works only on a server with a token.")
        elif scope["path"] not in OPEN and not scope["path"].startswith(OPEN_FOLDER):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.rules.token}".encode()):
                wanted = {"WWW-Authenticate": "Bearer"}
                raise ApiError(401, "unauthorized", "send the header 'Authorization: Bearer TOKEN'.", wanted)
        origin = headers.get(b"origin")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and _netloc(origin) != host.lower():
            raise ApiError(403, "cross_origin", "requests from pages of other sites are not answered.")

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """The body read whole, so that its size and time are bounded before it is parsed."""
        too_large = ApiError(413, "too_large", f"a body may have at most {self.rules.most_bytes} bytes.")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.rules.most_bytes:
            raise too_large
        body, more = b"", True
        try:
            async with asyncio.timeout(self.rules.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "cut_short", "the connection ended before the body.")
                    part = message.get("body", b"")
                    body += part
                    self.arriving += len(part)
                    more = message.get("more_body", False)
                    if len(body) > self.rules.most_bytes:
                        raise too_large
                    if more and self.arriving > self.rules.most_arriving:
                        raise self._refusal("too many large bodies at once; try again in a second.")
        except TimeoutError:
            raise ApiError(408, "too_slow", f"the body did not arrive within {self.rules.seconds:g} seconds.") from None
        finally:
            self.arriving -= len(body)
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        return again


class _Turns:
    """Requests one after another, with other work in between: a health check waits for one request at most."""

    def __init__(self) -> None:
        self._queue: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._queue.append(mine)
        if len(self._queue) == 1:
            loop.call_soon(self._next, loop)
        await mine

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        first = self._queue.popleft()
        if not first.done():  # otherwise it was cancelled
            first.set_result(None)
        if self._queue:
            loop.call_soon(self._next, loop)


class _Answer:
    """Sends an answer with the headers of every answer, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send, self.status, self._begun = send, 500, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self._begun = message["status"], True
            own = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in own)]
        await self._send(message)

    async def error(self, error: ApiError) -> None:
        if self._begun:  # too late for an error
            return
        headers = {"Content-Type": "application/json", "Content-Length": str(len(error.body)), **error.headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": error.status, "headers": pairs})
        await self({"type": "http.response.body", "body": error.body})


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _netloc(origin: bytes) -> str:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower()
    except ValueError:
        return ""
