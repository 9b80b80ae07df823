"""The order of the tests among several workers: what takes long begins at once, and what it needs is made once.

pytest-xdist gives every worker a run of as many tests as the others, and who is done takes from the end of another's.
So each begins with some of the slow folders as a whole, and what is left to be shared out at the end are quick tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

# Dealt out in turn, so that of two workers one gets the first of each row, which take about as long as the others.
SLOW = (
    "lab", "docs",
    "cli", "report",
    "nn", "serve",
    "auditing", "methods",
    "stress", "posteriors",
    "comparing",
)  # fmt: skip

T = TypeVar("T")


def dealt(tests: Sequence[T], folders: Sequence[str], workers: int) -> list[T]:
    """The tests in their new order, by the folder of each."""
    own: list[list[T]] = [[] for _ in range(workers)]
    for turn, slow in enumerate(SLOW):
        own[turn % workers] += [test for test, folder in zip(tests, folders, strict=True) if folder == slow]
    quick = [test for test, folder in zip(tests, folders, strict=True) if folder not in SLOW]
    order: list[T] = []
    for number, slow_ones in enumerate(own):
        share = (len(tests) - len(order)) // (workers - number)
        more = max(0, share - len(slow_ones))
        order += slow_ones + quick[:more]
        quick = quick[more:]
    return order + quick
