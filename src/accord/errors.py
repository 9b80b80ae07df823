"""Errors that a user can cause: one sentence each, which says how to fix it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

MOST_SHOWN = 80
# control characters, line and paragraph separators, changes of writing direction, lone surrogates
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """Bad input. The message is one sentence for the person who gave it; the command line exits with code 2.

    >>> accord.fit(accord.load("demo"), "eese")
    Traceback (most recent call last):
    accord.errors.InputError: unknown model 'eese'; did you mean 'ease'?
    """


def shown(value: Any) -> str:
    """A value as a message quotes it: invisible characters as codes, and cut off where it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text):,} characters)"


def printable(text: str) -> str:
    """Text for a terminal: characters that would move its cursor or change its colours are written as codes."""
    return INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An unknown name, with the nearest known one suggested."""
    names = sorted(known)
    lower = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.65)
    hint = f"did you mean '{lower[near[0]]}'?" if near else f"give one of {', '.join(names)}."
    return InputError(f"unknown {kind} '{name}'; {hint}")
