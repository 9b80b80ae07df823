"""What whoever starts some work wants kept with its results: the command that repeats it, how long reading took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_NOTED: ContextVar[Mapping[str, Any]] = ContextVar("noted", default={})  # noqa: B039  # never changed, only replaced


@contextmanager
def noting(**facts: Any) -> Iterator[None]:
    """Within this, results are kept with these facts, besides those that were noted around it."""
    before = _NOTED.set({**_NOTED.get(), **facts})
    try:
        yield
    finally:
        _NOTED.reset(before)


def noted(name: str, otherwise: Any) -> Any:
    """A fact that was noted."""
    return _NOTED.get().get(name, otherwise)
