"""Who does the work: this process, several processes of this machine, or a cluster (`accord_lab.cluster`)."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from accord.config import from_package
from accord.errors import Argument, InputError
from accord.training.plan import find_device
from accord.training.trainer import Progress

CPU_BYTES = 4 * 2**30  # for one batch of runs in main memory: a larger one would be no faster
BYTES_OF_A_PROCESS = 2**29  # of an interpreter with torch, in addition to a job
SECONDS_BETWEEN_REPORTS = 0.3
SECONDS_TO_BEGIN = 60.0
START = "forkserver" if sys.platform == "linux" else "spawn"  # the first imports torch once for all processes

Result = TypeVar("Result")
Watch = Callable[[Progress], None] | None
Say = Callable[[str], None]
Work = Callable[[Any, Any, torch.device, Watch, Say], Iterator[Result]]
"""Does one job, given the data, the task, a device and two callbacks. It may run in another process, on copies."""
Report = dict[str, Any] | str | None  # the progress of a job, a message, or None when the job begins


@dataclass(frozen=True)
class Job:
    """One piece of some work; `task` is what the work is called with."""

    name: str
    task: Any
    size: int = 1  # relative to other jobs, to estimate the time left
    memory: int = 0  # bytes, about


class Workers(Protocol):
    """Who does the work. The results are the same whoever that is."""

    def device(self, name: str) -> torch.device:
        """The device of a name (auto, cpu, cuda) there."""

    def room(self, device: torch.device) -> int:
        """Bytes of memory that a batch of runs may take there."""

    def each(
        self, work: Work[Result], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch, say: Say
    ) -> Iterator[tuple[int, Result]]:
        """Results with the number of their job, as they finish, which may be in another order."""


class Here:
    """This process, which does one job after another."""

    def device(self, name: str) -> torch.device:
        return find_device(name)

    def room(self, device: torch.device) -> int:
        if device.type == "cuda":
            return int(torch.cuda.mem_get_info(device)[0]) // 2
        memory = Path("/proc/meminfo")
        for line in memory.read_text().splitlines() if memory.exists() else ():
            if line.startswith("MemAvailable:"):
                return min(CPU_BYTES, int(line.split()[1]) * 1024 // 2)
        return CPU_BYTES

    def each(
        self, work: Work[Result], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch, say: Say
    ) -> Iterator[tuple[int, Result]]:
        left = TimeLeft(jobs)
        for number, job in enumerate(jobs):
            say(f"{number + 1} of {len(jobs)}: {job.name}{left}")
            for result in work(data, job.task, device, watch, say):
                yield number, result
            left.done(job)


@contextmanager
def workers_on(cluster: str | None, say: Say) -> Iterator[Workers]:
    """This process, or the cluster at an address for as long as the block lasts."""
    if cluster is None:
        yield Here()
    else:
        with from_package("executors", "ray").workers_on(cluster, say) as workers:
            yield workers


@dataclass
class TimeLeft:
    """An estimate from the time that finished jobs took; nothing before a fifth is done, or for less than a minute."""

    jobs: Sequence[Job]
    began: float = field(default_factory=time.perf_counter)
    size: int = 0  # of the finished jobs

    def done(self, job: Job) -> None:
        self.size += job.size

    def __str__(self) -> str:
        total = sum(job.size for job in self.jobs)
        if self.size < total / 5:  # the first jobs may be unlike the others
            return ""
        minutes = (time.perf_counter() - self.began) / max(1, self.size) * (total - self.size) / 60
        return f" · about {round(minutes)} min left" if minutes >= 1 else ""


# --- jobs that run elsewhere, several at once


@dataclass
class Reporter:
    """The callbacks of a job that runs elsewhere; `put` sends its reports back."""

    put: Callable[[int, Report], None]
    job: int
    last: float = -math.inf

    def say(self, text: str) -> None:
        self.put(self.job, text)

    def watch(self, progress: Progress) -> None:
        if time.monotonic() - self.last > SECONDS_BETWEEN_REPORTS:
            self.last = time.monotonic()
            self.put(self.job, asdict(progress))


class Screen:
    """Shows the reports of jobs that run at once: a line when one begins, a bar while it trains. `if_none_begins` is
    shown once if no job has begun after a minute."""

    def __init__(self, jobs: Sequence[Job], watch: Watch, say: Say, if_none_begins: str = "") -> None:
        self.jobs, self.watch, self.say, self.if_none_begins = jobs, watch, say, if_none_begins
        self.left, self.created = TimeLeft(jobs), time.monotonic()
        self.begun: set[int] = set()
        self.ended: set[int] = set()  # whose last reports may still arrive
        self.bars: dict[int, Progress] = {}

    def results(
        self,
        running: dict[Any, int],
        finished: Callable[[Collection[Any]], Iterable[Any]],
        reports: Callable[[], Iterable[tuple[int, Report, str]]],
        results_of: Callable[[Any, Job], Iterable[Result]],
    ) -> Iterator[tuple[int, Result]]:
        """The results of all running jobs (handle: number) as they finish, and meanwhile their reports (job, what,
        where). Finished jobs are removed from `running`."""
        while running:
            handles = finished(list(running))
            for job, what, where in reports():
                self.show(job, what, where)
            if self.if_none_begins and not self.begun and time.monotonic() > self.created + SECONDS_TO_BEGIN:
                self.say(self.if_none_begins)
                self.if_none_begins = ""
            for handle in handles:
                number = running.pop(handle)
                for result in results_of(handle, self.jobs[number]):
                    yield number, result
                self.left.done(self.jobs[number])
                self.ended.add(number)
                self._close(number)

    def show(self, job: int, what: Report, where: str) -> None:
        name = self.jobs[job].name
        if what is None:
            again = " again, because its worker was lost" if job in self.begun else ""
            self.begun.add(job)
            self.say(f"{job + 1} of {len(self.jobs)}: {name}{where}{again}{self.left}")
        elif isinstance(what, str):
            self.say(f"{name}: {what}")
        elif self.watch is not None and job not in self.ended:
            stage = f"{job + 1}: {name.partition(' · ')[0]} {what['stage']}"
            bar = Progress(**what | {"stage": stage, "plan": None})
            if job in self.bars and self.bars[job].stage != bar.stage:
                self._close(job)
            self.bars[job] = bar
            self.watch(bar)

    def _close(self, job: int) -> None:
        bar = self.bars.pop(job, None)
        if bar is not None and self.watch is not None:
            self.watch(replace(bar, epoch=bar.epochs))  # a full bar is removed


class Processes(Here):
    """At most so many processes of one thread each, which share the memory: the steps of a training are small, and
    several threads of one process wait for each other. They start and end with the jobs. A GPU has one process, this
    one, unless it is to be shared."""

    def __init__(self, number: int, share_gpu: bool = False) -> None:
        self.number, self.share_gpu = number, share_gpu

    def room(self, device: torch.device) -> int:
        total = super().room(device)
        return max(1, total // self.number - BYTES_OF_A_PROCESS) if self._shares(device) else total

    def _shares(self, device: torch.device) -> bool:
        return self.number > 1 and (device.type == "cpu" or self.share_gpu)

    def each(
        self, work: Work[Result], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch, say: Say
    ) -> Iterator[tuple[int, Result]]:
        largest = max((job.memory for job in jobs), default=0) + BYTES_OF_A_PROCESS
        wanted = min(self.number, len(jobs)) if self._shares(device) else 1
        size = min(wanted, super().room(device) // largest)
        if size < wanted:
            say(f"{max(1, size)} of {wanted} processes: the memory has no room for more such jobs at once")
        if size < 2:
            yield from super().each(work, data, jobs, device, watch, say)
            return
        start = multiprocessing.get_context(START)
        start.set_forkserver_preload([__name__, work.__module__])
        reports = start.SimpleQueue()
        pool = ProcessPoolExecutor(size, start, _set_up, (reports, work, data, device))
        running = {pool.submit(_run, number, job.task): number for number, job in enumerate(jobs)}

        def received() -> Iterator[tuple[int, Report, str]]:
            while not reports.empty():
                yield *reports.get(), ""

        try:
            yield from Screen(jobs, watch, say).results(running, _finished, received, _results)
        finally:
            for process in list(pool._processes.values()):
                process.terminate()  # a job whose result is not wanted any more may take hours
            pool.shutdown(cancel_futures=True)


def _finished(running: Collection[Future[list[Any]]]) -> Collection[Future[list[Any]]]:
    return wait(running, SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED).done


def _results(future: Future[list[Any]], _: Job) -> list[Any]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise InputError(
            "the system ended one of the processes, as it does when memory runs out; the same command with ",
            Argument("resume", True),
            " continues where it stopped.",
        ) from None


# --- in the other processes

_call: tuple[Any, ...]  # the queue for reports, the work, the data with what was computed from it, and the device


def _set_up(*call: Any) -> None:
    global _call
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _call = call


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(job: int, task: Any) -> list[Any]:
    reports, work, data, device = _call
    reporter = Reporter(lambda *report: reports.put(report), job)
    warnings.showwarning = lambda message, *_args, **_more: reporter.say(str(message))
    reporter.put(job, None)
    return list(work(data, task, device, reporter.watch, reporter.say))
