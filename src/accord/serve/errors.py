"""Errors of the API: a status, a code for programs, a sentence for people."""

from __future__ import annotations

import json


class ApiError(Exception):
    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}

    @property
    def body(self) -> bytes:
        return json.dumps({"error": {"code": self.code, "message": self.message}}).encode()


def overloaded(code: str, message: str) -> ApiError:
    return ApiError(503, code, message, {"Retry-After": "1"})


def internal() -> ApiError:
    return ApiError(500, "internal", "an error of the server; its log says more.")
