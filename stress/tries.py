"""Tries changes that mutmut has put into a copy of the source: run there by mutation.py.

pytest collects once. Every test is run without a change, to see which functions it runs and how long it takes; then
each change is tried by the tests that run its function, the fastest first, until one fails. All of that is done in
forks of this process, where all is imported.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from mutmut.mutation import trampoline

NO_TEST = 33  # what mutmut writes where no test runs a function
LONGEST_CPU, LONGEST = 60, 600  # seconds after which what hangs is ended


class Tries:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(self, names: Sequence[str], longest: float) -> None:
        self.names, self.longest = names, longest
        self.codes: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests: dict[str, list[tuple[float, pytest.Item]]] = defaultdict(list)
        passes(session.items[0])  # which compiles what the others use, too
        for item in session.items:
            functions, seconds = measured(item)
            for function in functions:
                tests[function].append((seconds, item))
        for name in self.names:
            chosen = sorted(tests[name.partition("__mutmut_")[0]], key=lambda one: one[0])
            items = [item for seconds, item in chosen if seconds <= self.longest]
            self.codes[name] = tried(name, items) if items else NO_TEST
        return True


def passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False))


def measured(item: pytest.Item) -> tuple[list[str], float]:
    """The functions that a test runs, and its CPU seconds; in a fork, as threads that a test starts end with it."""
    run: set[str] = set()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            trampoline.record_trampoline_hit = lambda name, caller=None: run.add(name)
            trampoline.set_mutant_under_test("stats")
            began = time.process_time()
            found = [passes(item), sorted(run), time.process_time() - began]
            with os.fdopen(writing, "w") as file:
                json.dump(found, file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        passed, functions, seconds = json.load(file)
    os.waitpid(child, 0)
    if not passed:
        raise pytest.UsageError(f"{item.nodeid} fails without a change.")
    return functions, seconds


def tried(name: str, items: Sequence[pytest.Item]) -> int:
    """0 where all tests pass with the change of that name."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_CPU, LONGEST_CPU))
        signal.alarm(LONGEST)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        trampoline.set_mutant_under_test(name)
        code = int(not all(map(passes, items)))
    finally:
        os._exit(code)


if __name__ == "__main__":
    asked, answer = map(Path, sys.argv[1:])
    given = json.loads(asked.read_text())
    tries = Tries(given["names"], given["longest"])
    ended = pytest.main(["-q", "-p", "no:cacheprovider", *given["tests"]], plugins=[tries])
    if not tries.codes:
        sys.exit(int(ended) or 1)
    answer.write_text(json.dumps(tries.codes))
