"""A hostile input, and how Accord must end when it gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """`make` writes into an empty folder and gives the arguments of the command.

    `says` must be in what the command says. Where the input is `refused` that is one sentence and exit code 2; where it
    is not, it is read whole, and `says` is what shows that. None: either is right.
    """

    name: str
    make: Callable[[Path], list[str]]
    says: str
    refused: bool | None = True


def csv_lines(count: int, start: int = 0) -> str:
    """Honest rows of 50 users and 40 items, which no split leaves empty."""
    return "".join(f"u{n % 50},i{(n + n // 50 * 7) % 40},{n % 5 + 1},{n}\n" for n in range(start, start + count))


HEAD = "user,item,rating,time\n"
ROWS = 400
