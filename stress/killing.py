"""Commands in processes that are killed at random moments, and a count of what happened."""

from __future__ import annotations

import functools
import importlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIVES = 12  # how often a command is started at most; the last time it is not disturbed
POLL = 0.002
SEED = 4  # of the data


@dataclass
class Tally:
    """What happened to one kind of command."""

    kind: str
    kills: int = 0
    commands: int = 0  # that finished
    whole: int = 0  # kills after which a correct folder or file was there
    resumed: int = 0  # processes that continued from what a killed one left
    refused: int = 0  # commands that ended in the sentence that was expected
    wrong: list[str] = field(default_factory=list)


def life(work: Callable[[], None], seconds: float | None, log: Path, by: int = signal.SIGKILL) -> int | None:
    """Run `work` in a forked process. Returns its exit code, or None if a signal ended it after so many seconds."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            sys.stdout = sys.stderr = log.open("a", buffering=1)
            os.dup2(sys.stdout.fileno(), 1)
            os.dup2(sys.stdout.fileno(), 2)
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, by)
            status = os.waitpid(child, 0)[1]
            return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
        time.sleep(POLL)


def accord(*words: Any) -> Callable[[], None]:
    """A command, as a user types it."""

    def run() -> None:
        from accord.cli.app import main

        sys.argv = ["accord", *map(str, words)]
        main()

    return run


def undisturbed(work: Callable[[], None], log: Path) -> float:
    """Run `work` undisturbed; returns the seconds that it took."""
    began = time.monotonic()
    code = life(work, None, log)
    if code != 0:
        raise SystemExit(f"an undisturbed command ended with {code}:\n{log.read_text()[-2000:]}")
    return time.monotonic() - began


@dataclass
class Victim:
    """A command to kill. `command` is told whether there is something to resume; `look` returns whether the folder is
    complete, or raises AssertionError because it is wrong; `leaves` returns whether a killed process left something to
    continue from.
    """

    tally: Tally
    folder: Path
    command: Callable[[bool], Callable[[], None]]
    look: Callable[[], bool]
    leaves: Callable[[], bool]
    took: float
    log: Path

    def torment(self, draw: random.Random, kills: int) -> None:
        """Start, kill, check, start again; the last process is not disturbed. Stops where something is wrong."""
        while kills > 0 and not self.tally.wrong:
            shutil.rmtree(self.folder, ignore_errors=True)
            for _ in range(min(kills, LIVES - 1)):
                if self.live(draw.uniform(0, 1.1 * self.took)):
                    break
                kills -= 1
            else:
                self.live(None)
            self.tally.commands += 1
            self.final()

    def live(self, seconds: float | None, by: int = signal.SIGKILL, may_say: Sequence[str] = ()) -> bool:
        """Start it once; True if it finished. `may_say`: sentences that it may fail with."""
        resume = self.leaves()
        self.tally.resumed += resume
        self.log.touch()
        before = self.log.stat().st_size
        code = life(self.command(resume), seconds, self.log, by)
        said = self.log.read_bytes()[before:].decode(errors="replace")
        if code == 2 and any(sentence in said for sentence in may_say):
            self.tally.refused += 1
        elif code not in (0, None):
            self.complain(f"exit {code}: {said[-400:]}")
        if "Traceback" in said:
            self.complain(said[-400:])
        self.tally.kills += code is None
        try:
            whole = self.look()
            self.tally.whole += whole and code is None
        except AssertionError as error:
            self.complain(str(error))
            whole = True
        return whole  # if finished, the same command would refuse to replace it

    def final(self) -> None:
        try:
            if not self.look():
                self.complain("not complete at the end")
        except AssertionError as error:
            self.complain(str(error))

    def complain(self, what: str) -> None:
        self.tally.wrong.append(f"{self.tally.kind}: {what}")
        print(f"WRONG {self.tally.kind}: {what}", flush=True)


@functools.cache
def dataset() -> Any:
    """A log of 200 users with known noise."""
    import accord as library

    return library.simulate(users=200, items=120, interactions=3_000, seed=SEED).dataset


@functools.cache
def clicks(folder: Path) -> Path:
    """The same as a file."""
    import pyarrow as pa
    import pyarrow.csv

    parts = (dataset().train, dataset().valid)
    rows = pa.concat_tables([part.table.select(["user", "item", "value"]) for part in parts])
    pyarrow.csv.write_csv(rows, folder / "clicks.csv")
    return folder / "clicks.csv"


def warm() -> None:
    """Import what the commands need, so that each begins with its work; no thread may exist when a process forks."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
    for name in (
        "torch._dynamo",
        "accord.cli.app",
        "accord.report.run_report",
        "accord.auditing.page",
    ):
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
