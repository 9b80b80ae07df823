"""Who does the work: this process, several processes of this machine, or a cluster (`accord_lab.cluster`)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from accord.config import from_package
from accord.errors import Argument, InputError
from accord.training.plan import find_device
from accord.training.trainer import Progress, Watch

CPU_BYTES = 4 * 2**30  # for one batch of runs in main memory: a larger one would be no faster
BYTES_OF_A_PROCESS = 2**29  # of an interpreter with torch, in addition to a job
START = "forkserver" if sys.platform == "linux" else "spawn"  # the first imports torch once for all processes

Result = TypeVar("Result")
Say = Callable[[str], None]
Work = Callable[[Any, Any, torch.device, Watch, Say], Iterator[Result]]
"""Does one job, given the data, the task, a device and two callbacks. In another process it has copies."""
Done = tuple[list[Any], list[str]]  # the results of a job that ran elsewhere, and what it said


@dataclass(frozen=True)
class Job:
    """One piece of some work; `task` is what the work is called with."""

    name: str
    task: Any
    memory: int = 0  # bytes, about


class Here:
    """This process, which does one job after another. The results are the same whoever does the work."""

    def device(self, name: str) -> torch.device:
        """The device of a name (auto, cpu, cuda) where the work is done."""
        return find_device(name)

    def room(self, device: torch.device) -> int:
        """Bytes of memory that a batch of runs may take there."""
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
        """Results with the number of their job, as they finish, which may be in another order."""
        for number, job in enumerate(jobs):
            say(f"{number + 1} of {len(jobs)}: {job.name}")
            for result in work(data, job.task, device, watch, say):
                yield number, result


Workers = Here  # and its subclasses


@contextmanager
def workers_on(cluster: str | None, say: Say) -> Iterator[Workers]:
    """This process, or the cluster at an address for as long as the block lasts."""
    if cluster is None:
        yield Here()
    else:
        with from_package("executors", "ray").workers_on(cluster, say) as workers:
            yield workers


def finished(
    running: Mapping[Any, int], jobs: Sequence[Job], handles: Iterable[Any], results_of: Callable[[Any, Job], Done],
    watch: Watch, say: Say,
) -> Iterator[tuple[int, Any]]:  # fmt: skip
    """The results of running jobs (handle: number) in the order in which their handles come, each announced."""
    for done, handle in enumerate(handles, 1):
        number = running[handle]
        results, messages = results_of(handle, jobs[number])
        for message in messages:
            say(f"{jobs[number].name}: {message}")
        say(f"{done} of {len(jobs)} done: {jobs[number].name}")
        if watch is not None:
            watch(Progress("all", done, len(jobs), unit="jobs"))
        yield from ((number, result) for result in results)


def with_messages(work: Work[Any], data: Any, task: Any, device: torch.device) -> Done:
    """What a job gives, and what it has said: warnings too."""
    messages: list[str] = []
    warnings.showwarning = lambda message, *_args, **_more: messages.append(str(message))
    return list(work(data, task, device, None, messages.append)), messages


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
            say(f"{max(1, size)} of {wanted} processes: memory does not allow more at once")
        if size < 2:
            yield from super().each(work, data, jobs, device, watch, say)
            return
        start = multiprocessing.get_context(START)
        start.set_forkserver_preload([__name__, work.__module__])
        pool = ProcessPoolExecutor(size, start, _set_up, (work, data, device))
        running = {pool.submit(_run, job.task): number for number, job in enumerate(jobs)}
        try:
            yield from finished(running, jobs, as_completed(running), _results, watch, say)
        finally:
            for process in list(pool._processes.values()):
                process.terminate()  # a job whose result is not wanted any more may take hours
            pool.shutdown(cancel_futures=True)


def _results(future: Future[Done], _: Job) -> Done:
    try:
        return future.result()
    except BrokenProcessPool:
        why = "the system ended one of the processes, as it does when memory runs out; the same command with "
        raise InputError(why, Argument("resume", True), " continues where it stopped.") from None


_call: tuple[Any, ...]  # the work, the data with what was computed from it, and the device


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


def _run(task: Any) -> Done:
    work, data, device = _call
    return with_messages(work, data, task, device)
