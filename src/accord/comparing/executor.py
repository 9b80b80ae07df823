"""Where jobs are done: in this process, one after another. `processes` gives them to several, `ray_executor` to other
machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from accord.training.plan import find_device
from accord.training.trainer import Progress

CPU_BYTES = 4 * 2**30  # for one stack in main memory: a larger one would be no faster

Found = TypeVar("Found")
Watch = Callable[[Progress], None]
Say = Callable[[str], None]
Work = Callable[[Any, Any, torch.device, Watch | None, Say], Iterator[Found]]
"""What is done with the data and one job. It may run in another process, on a copy of everything."""


@dataclass(frozen=True)
class Job:
    """One piece of some work; `task` is what the work is called with."""

    name: str
    task: Any
    size: int = 1  # relative to other jobs, to estimate the time left
    memory: int = 0  # bytes, about


class Workers(Protocol):
    """Where jobs are done. The results are the same wherever that is."""

    def device(self, name: str) -> torch.device:
        """The device of a name (auto, cpu, cuda) there."""

    def room(self, device: torch.device) -> int:
        """Bytes of memory that a stack of runs may take there."""

    def each(
        self, work: Work[Found], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch | None, say: Say
    ) -> Iterator[tuple[int, Found]]:
        """Results with the number of their job, as they are finished, which may be in another order."""


class Here:
    """This process."""

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
        self, work: Work[Found], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch | None, say: Say
    ) -> Iterator[tuple[int, Found]]:
        left = TimeLeft(jobs)
        for number, job in enumerate(jobs):
            say(f"{number + 1} of {len(jobs)}: {job.name}{left}")
            for found in work(data, job.task, device, watch, say):
                yield number, found
            left.done(job)


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


class Screen:
    """Shows the reports of jobs that run at once: a line when one begins, a bar while it trains."""

    def __init__(self, jobs: Sequence[Job], watch: Watch | None, say: Say) -> None:
        self.jobs, self.watch, self.say = jobs, watch, say
        self.left = TimeLeft(jobs)
        self.begun: set[int] = set()
        self.ended: set[int] = set()  # whose last reports may still come
        self.bars: dict[int, Progress] = {}

    def show(self, job: int, what: dict[str, Any] | str | None, where: str = "") -> None:
        """That a job begins (None), what it says, or its progress."""
        name = self.jobs[job].name
        if what is None:
            again = " again, because its worker was lost" if job in self.begun else ""
            self.begun.add(job)
            self.say(f"{job + 1} of {len(self.jobs)}: {name}{where}{again}{self.left}")
        elif isinstance(what, str):
            self.say(f"{name}: {what}")
        elif self.watch is not None and job not in self.ended:
            stage = f"{job + 1}: {name.partition(' · ')[0]} {what['stage']}"
            bar = Progress(**what | {"stage": stage, "plan": None})  # that a job begins was said
            if job in self.bars and self.bars[job].stage != bar.stage:
                self._close(job)
            self.bars[job] = bar
            self.watch(bar)

    def done(self, number: int) -> None:
        self.left.done(self.jobs[number])
        self.ended.add(number)
        self._close(number)

    def _close(self, number: int) -> None:
        bar = self.bars.pop(number, None)
        if bar is not None and self.watch is not None:
            self.watch(replace(bar, epoch=bar.epochs))  # a full bar is removed
