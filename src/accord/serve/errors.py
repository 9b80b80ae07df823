"""Errors of the API: a status, a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import HTTPException
from fastapi.responses import JSONResponse


class ApiError(HTTPException):
    """Answered as `{"error": {"code": …, "message": …}}`."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, {"error": {"code": code, "message": message}}, headers)

    @property
    def response(self) -> JSONResponse:
        return JSONResponse(self.detail, self.status_code, self.headers)


def overloaded(code: str, message: str) -> ApiError:
    return ApiError(503, code, message, {"Retry-After": "1"})
