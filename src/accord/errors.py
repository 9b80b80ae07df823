"""Errors that a user can cause: one sentence each, which says how to fix it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

MOST_SHOWN = 80
# control characters, line and paragraph separators, changes of writing direction, lone surrogates
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Argument:
    """An argument that a message names: `out=` or `overwrite=True` in Python, `--out` or `--overwrite` in a command."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        value = str(self.value) if isinstance(self.value, Path) else self.value
        return f"{self.name}=" + ("" if value is None else repr(value))

    @property
    def option(self) -> str:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        flag = self.value is None or self.value is True
        text = "" if flag else " " + shlex.quote(",".join(map(str, values)))
        return f"--{self.name.replace('_', '-')}{text}"


class ColumnArgument(Argument):
    """The argument that names a column of the log, by what the column is for: `time`."""

    def __str__(self) -> str:
        return f"columns=Columns({self.name}=…)"

    @property
    def option(self) -> str:
        return f"--{self.name}-col"


class InputError(ValueError):
    """Bad input: one sentence for the person who gave it, as strings and `Argument`s. A command exits with code 2.

    >>> accord.fit(accord.load("demo"), "eese")
    Traceback (most recent call last):
    accord.errors.InputError: unknown model 'eese'; did you mean 'ease'?
    """

    def __str__(self) -> str:
        return "".join(map(str, self.args))

    @property
    def for_command(self) -> str:
        """The sentence with options in the place of arguments."""
        return Note(*self.args).for_command


class Note(str):
    """A sentence about the input, as strings, `Argument`s and other notes: as text it names arguments."""

    for_command: str  # with options in their place

    def __new__(cls, *parts: Any) -> Note:
        note = super().__new__(cls, "".join(map(str, parts)))
        note.for_command = "".join(
            part.option if isinstance(part, Argument) else part.for_command if isinstance(part, Note) else str(part)
            for part in parts
        )
        return note


def shown(value: Any) -> str:
    """A value as a message quotes it: invisible characters escaped, and cut off if it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text):,} characters)"


def printable(text: str) -> str:
    """Text for a terminal: characters that would move its cursor or change its colours are escaped."""
    return INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def unknown(kind: str, name: str, valid_names: Iterable[str]) -> InputError:
    """The error for a name that is none of the valid ones, with the nearest of them suggested."""
    names = sorted(valid_names)
    lower = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.65)
    hint = f"did you mean '{lower[near[0]]}'?" if near else f"give one of {', '.join(names)}."
    return InputError(f"unknown {kind} '{name}'; {hint}")


def invalid_option(error: ValidationError, where: str) -> InputError:
    """The first mistake in some options, as pydantic reports it, in one sentence."""
    first = error.errors()[0]
    name, problem = ".".join(map(str, first["loc"])), first["msg"][0].lower() + first["msg"][1:]
    return InputError(f"option {name} of {where} is {first['input']!r}: {problem}.")
