"""What protects the API: who may send requests, how many, how large and for how long; the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CHANGES = {"/reload": "reloading", "/v1/refusals": "refusing"}  # requests that change what others get
PROBES = ("/healthz", "/readyz")
OPEN = (*PROBES, "/", "/docs")  # need no token: they reveal nothing about the data
SECURITY_HEADERS = {
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
log = logging.getLogger("accord.serve")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class ApiError(HTTPException):
    """Answered as `{"error": {"code": …, "message": …}}`: a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, {"error": {"code": code, "message": message}}, headers)

    @property
    def response(self) -> JSONResponse:
        return JSONResponse(self.detail, self.status_code, self.headers)


def overloaded(code: str, message: str) -> ApiError:
    return ApiError(503, code, message, {"Retry-After": "1"})


@dataclass(frozen=True)
class Rules:
    """The limits of a server. Without a token only requests to `hosts` are answered."""

    token: str | None = None
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    max_body_bytes: int = 2**20
    max_incomplete_bytes: int = 2**26  # of all bodies that are still arriving
    max_requests: int = 128  # at once; more are refused, so that nobody waits long
    seconds: float = 10.0  # for a body to arrive, and for an answer
    log_requests: bool = False


class Guard:
    def __init__(self, app: ASGIApp, rules: Rules, meters: Meters) -> None:
        self.app, self.rules, self.meters = app, rules, meters
        self.requests = 0  # that have arrived completely and are not answered yet
        self.incomplete_bytes = 0
        self._turn = asyncio.Lock()
        meters.waiting.set_function(lambda: self.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        async def send_error(error: ApiError) -> None:
            if not status:  # otherwise an answer has begun, and it is too late for an error
                await error.response(scope, receive, send_with_headers)

        try:
            await self._answer(scope, receive, send_with_headers)
        except ApiError as error:
            await send_error(error)
        except Exception as error:
            self._log_error(error)
            await send_error(ApiError(500, "internal", "an error in the server; its log has the details."))
        finally:
            seconds = time.perf_counter() - start
            self.meters.record(getattr(scope.get("route"), "path", "none"), status or 500, seconds)
            if self.rules.log_requests:
                query = scope["query_string"].decode("ascii", "replace")
                path = f"{scope['path']}?{query}" if query else scope["path"]
                log.info("%s %r %d %.1f ms", scope["method"], path, status or 500, 1000 * seconds)

    def _log_error(self, error: Exception) -> None:
        """Log where it happened. The message may contain ids, so it is logged only if requests are."""
        message = traceback.format_exception_only(error) if self.rules.log_requests else [type(error).__name__]
        where = "".join(traceback.format_tb(error.__traceback__))
        log.error("an error in the server:\n%s%s", where, "".join(message).rstrip())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, rules = scope["path"], self.rules
        self._check_sender(scope)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            receive = await self._read_body(scope, receive)
        self.requests += 1
        try:
            if path not in PROBES:
                if self.requests > rules.max_requests:
                    raise self._refuse("too many requests at once; try again in a second.")
                async with self._turn:  # requests start one by one, so that a health check waits for one at most
                    await asyncio.sleep(0)
            async with asyncio.timeout(None if path == "/reload" else rules.seconds):
                await self.app(scope, receive, send)
        except TimeoutError:
            raise overloaded("timeout", f"no answer within {rules.seconds:g} seconds; request less.") from None
        finally:
            self.requests -= 1

    def _refuse(self, message: str) -> ApiError:
        self.meters.refused.inc()
        return overloaded("overloaded", message)

    def _check_sender(self, scope: Scope) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        if "transfer-encoding" in headers and "content-length" in headers:
            # a proxy may trust the other one, and take the end of this body for a request from somebody else
            message = "a request has a Content-Length or a Transfer-Encoding, not both."
            raise ApiError(400, "bad_request", message, {"Connection": "close"})
        host = headers.get("host", "").lower()
        if self.rules.token is None:
            # otherwise another site could point its name here, and read answers through the user's browser
            if re.sub(r":\d*$", "", host) not in self.rules.hosts:
                raise ApiError(400, "wrong_host", "this server answers only to its own name or address.")
            if path in CHANGES and ("forwarded" in headers or "x-forwarded-for" in headers):
                raise ApiError(403, "token_needed", f"{CHANGES[path]} through a proxy needs a server with a token.")
        elif path not in OPEN and not path.startswith("/static/"):
            given = headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, f"Bearer {self.rules.token}".encode()):
                message = "send the header 'Authorization: Bearer TOKEN'."
                raise ApiError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and origin.lower().partition("://")[2] != host:
            raise ApiError(403, "cross_origin", "requests from pages of other sites are not answered.")

    async def _read_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the complete body, so that its size and time are limited before it is parsed."""
        rules, body = self.rules, b""
        too_large = ApiError(413, "too_large", f"a body may have at most {rules.max_body_bytes} bytes.")
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > rules.max_body_bytes:
            raise too_large
        try:
            async with asyncio.timeout(rules.seconds):
                async for part in Request(scope, receive).stream():
                    body += part
                    self.incomplete_bytes += len(part)
                    if len(body) > rules.max_body_bytes:
                        raise too_large
                    if self.incomplete_bytes > rules.max_incomplete_bytes:
                        raise self._refuse("too many large bodies at once; try again in a second.")
        except TimeoutError:
            raise ApiError(408, "too_slow", f"the body did not arrive within {rules.seconds:g} seconds.") from None
        except ClientDisconnect:
            raise ApiError(400, "cut_short", "the connection ended before the body.") from None
        finally:
            self.incomplete_bytes -= len(body)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay


class Meters:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("accord_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "accord_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self.waiting = Gauge("accord_requests_waiting", "Requests being answered now.", registry=registry)
        self.refused = Counter("accord_refused", "Requests refused for overload.", registry=registry)
        self.reloads = Counter("accord_reloads", "Reloads of the run folder.", ["result"], registry=registry)
        self.loaded = Gauge("accord_run_loaded_seconds", "When the run was read, since 1970.", registry=registry)

    def record(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
