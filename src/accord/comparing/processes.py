"""Jobs in several processes of this machine, each with one thread: steps on a CPU are small, and several threads in one
process wait for each other.

What goes between them is pickled by processes of one owner and never written to a file.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from accord.comparing.executor import Found, Here, Job, Say, Screen, Watch, Work
from accord.errors import Argument, InputError
from accord.training.trainer import Progress

BYTES_OF_A_PROCESS = 2**29  # of an interpreter with torch, in addition to a job
SECONDS_BETWEEN_NEWS = 0.3


class Processes(Here):
    """At most so many at once, which share the memory; fewer where there are fewer jobs, or a job takes more than its
    share. They are started by the first jobs, and ended with the block of a `with`. A GPU has one process, this one,
    unless it is to be shared."""

    def __init__(self, number: int, share_gpu: bool = False) -> None:
        self.number, self.share_gpu = number, share_gpu
        self._there: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._end([line for _, line in self._there])

    def _end(self, lines: Collection[Connection]) -> None:
        for process, line in self._there:
            if line in lines:
                process.terminate()
                process.join()
                line.close()
        self._there = [(process, line) for process, line in self._there if line not in lines]

    def room(self, device: torch.device) -> int:
        whole = super().room(device)
        return max(1, whole // self.number - BYTES_OF_A_PROCESS) if self._shares(device) else whole

    def _shares(self, device: torch.device) -> bool:
        return self.number > 1 and (device.type == "cpu" or self.share_gpu)

    def each(
        self, work: Work[Found], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch | None, say: Say
    ) -> Iterator[tuple[int, Found]]:
        largest = max((job.memory for job in jobs), default=0) + BYTES_OF_A_PROCESS
        asked = min(self.number, len(jobs)) if self._shares(device) else 1
        number = min(asked, super().room(device) // largest)
        if number < asked:
            say(f"{max(1, number)} of {asked} processes: the memory has no room for more such jobs at once")
        if number < 2:
            yield from super().each(work, data, jobs, device, watch, say)
            return
        screen, waiting = Screen(jobs, watch, say), list(enumerate(jobs))[::-1]
        busy: dict[Any, int] = {}
        free = self._started(number)[::-1]
        for line in free:
            line.send((work, data, str(device)))
        try:
            while waiting or busy:
                while waiting and free:
                    line, (job, given) = free.pop(), waiting.pop()
                    line.send((job, given.task))
                    busy[line] = job
                    screen.show(job, None)
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    kind, what = _received(ready, jobs[busy[ready]])
                    if kind == "found":
                        yield busy[ready], what
                    elif kind == "news":
                        screen.show(busy[ready], what)
                    else:
                        screen.done(busy.pop(ready))
                        free.append(ready)
        finally:  # what is still at work has failed, or its results are not wanted
            self._end(busy)

    def _started(self, number: int) -> list[Connection]:
        start = multiprocessing.get_context("spawn")
        while len(self._there) < number:
            here, there = start.Pipe()
            process = start.Process(target=_serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self._there.append((process, here))
        return [line for _, line in self._there[:number]]


def _received(line: Connection, job: Job) -> tuple[str, Any]:
    try:
        kind, what = line.recv()
    except (EOFError, ConnectionError):
        raise InputError(
            f"the system ended the process of '{job.name}'; is there enough memory? The same command with ",
            Argument("resume", True),
            " continues where it stopped.",
        ) from None
    if kind == "failed":
        error, trace = what
        if not isinstance(error, InputError):
            error.add_note(trace)
        raise error
    return kind, what


# --- in the other processes


def _serve(line: Connection) -> None:
    """Do what comes until nothing comes any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first ends the others
    torch.set_num_threads(1)
    last = 0.0

    def watch(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_NEWS:
            last = time.monotonic()
            line.send(("news", asdict(progress)))

    warnings.showwarning = lambda message, *_args, **_more: line.send(("news", str(message)))
    work: Any = None
    with suppress(EOFError, ConnectionError):  # the first process is gone
        while True:
            given = line.recv()
            if len(given) == 3:
                work, data, device = given
                continue
            try:
                for found in work(data, given[1], torch.device(device), watch, lambda text: line.send(("news", text))):
                    line.send(("found", found))
                line.send(("done", None))
            except ConnectionError:
                raise
            except Exception as error:
                line.send(("failed", (error, traceback.format_exc())))
