"""Jobs on a Ray cluster. Ray places them, moves the data, and runs a job again whose worker was lost.

Ray pickles what it sends between its own processes, which all belong to one owner. None of that is written to a file
of ours.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch

from accord.comparing.executor import CPU_BYTES, Found, Here, Job, Say, Screen, Watch, Work, Workers
from accord.errors import Argument, InputError
from accord.fitting import deterministic
from accord.training.plan import find_device
from accord.training.trainer import Progress
from accord.version import __version__

INSTALL = "pip install 'accord[cluster]'"
SECONDS_TO_ANSWER = 5.0  # for an address
SECONDS_BETWEEN_NEWS = 0.3
SECONDS_TO_BEGIN = 60.0
MOST_RETRIES = 3  # of a job whose worker is lost
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the frame with which both sides of HTTP/2, and so of gRPC, begin
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
BYTES_OF_A_PROCESS = 2**29  # of an interpreter with torch, in addition to a stack of runs


@contextmanager
def workers_on(cluster: str | None, say: Say) -> Iterator[Workers]:
    """This process, or the cluster at an address for as long as the block lasts."""
    if cluster is None:
        yield Here()
        return
    ray = _ray()
    _connect(ray, cluster)
    try:
        found = Cluster(ray)
        say(f"Ray cluster: {found}")
        yield found
    finally:
        ray.shutdown()  # ends what is still running, and a cluster that was started only for us


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(Argument("cluster"), f" needs Ray, which is not installed; {INSTALL}.") from None


def _connect(ray: Any, cluster: str) -> None:
    """Connect to an address; 'auto' is the cluster of RAY_ADDRESS or of this machine, or a new one here."""
    address = os.environ.get("RAY_ADDRESS") or None if cluster == "auto" else cluster
    if address not in (None, "auto", "local"):
        _require_answer(address)
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises many kinds
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            Argument("cluster", cluster), f": Ray cannot be reached ({reason}); see 'ray status'."
        ) from None


def _require_answer(address: str) -> None:
    """Fail fast where nothing or something else answers: Ray itself would try again for a quarter of an hour."""
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")  # one attempt, of less than a minute
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise InputError(Argument("cluster", address), ": give auto, or the HOST:PORT that 'ray start --head' printed.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER) as line:
            line.sendall(HTTP_2)
            answer = line.recv(len(SETTINGS))
    except (OSError, OverflowError) as error:
        raise InputError(
            Argument("cluster", address),
            f": nothing answers there ({error}); is it the address that 'ray start --head' printed?",
        ) from None
    if answer[3:4] != SETTINGS[3:4] and not os.environ.get("RAY_USE_TLS"):
        raise InputError(
            Argument("cluster", address),
            ": what answers there is not Ray; give the HOST:PORT that 'ray start --head' printed.",
        )


class Cluster:
    """The workers of a connected Ray cluster."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._kept: tuple[Any, Any] | None = None  # the data in the object store, and its reference
        self._works = 0  # how many works were given to the cluster
        self._on = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        # where workers report, on the node of this process: if that is lost, everything is
        here = self._on(ray.get_runtime_context().get_node_id(), soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": here}
        self._board = importlib.import_module("ray.util.queue").Queue(actor_options=options)

    def __str__(self) -> str:
        nodes = self._nodes()
        cpus, gpus, memory = (sum(node.get(name, 0) for node in nodes) for name in ("CPU", "GPU", "memory"))
        several = "s" if len(nodes) != 1 else ""
        return f"{len(nodes)} node{several}, {cpus:g} CPUs, {gpus:g} GPUs, {memory / 2**30:.0f} GiB for tasks"

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def device(self, name: str) -> torch.device:
        """CUDA where the cluster has a GPU or is asked for one, as nodes may still be started for it."""
        if name == "auto":
            name = "cuda" if any(node.get("GPU") for node in self._nodes()) else "cpu"
        if ":" in name:
            raise InputError(
                Argument("device", name), ": on a cluster give auto, cpu or cuda; Ray decides which GPU it is."
            )
        return torch.device(name) if name == "cuda" else find_device(name)

    def room(self, device: torch.device) -> int:
        """As in one process: 4 GiB, or half of the free GPU memory; of the smallest, since any may get the stack."""
        if device.type == "cpu":
            return min(CPU_BYTES, self._largest_memory() // 2 or CPU_BYTES)
        free = self.ray.remote(_free_on_gpu).options(num_gpus=1, num_cpus=0)
        pinned = [node["NodeID"] for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
        asked = [free.options(scheduling_strategy=self._on(node, soft=True)) for node in pinned] or [free]
        return int(min(self.ray.get([one.remote() for one in asked])))

    def each(
        self, work: Work[Found], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch | None, say: Say
    ) -> Iterator[tuple[int, Found]]:
        if not jobs:
            return
        ray = self.ray
        self._works += 1
        work_there, data_there = ray.put(work), self._put(data)
        way = _Way(str(device), self._threads(len(jobs)), torch.are_deterministic_algorithms_enabled(), __version__)
        waiting = {}
        for number, job in enumerate(jobs):
            task = ray.remote(_run).options(max_retries=MOST_RETRIES, **self._needs(job, way))
            news = _Reporter(self._board, self._works, number)
            waiting[task.remote(work_there, data_there, job.task, way, news)] = number
        screen = _Screen(jobs, watch, say)
        try:
            while waiting:
                ready, _ = ray.wait(list(waiting), timeout=SECONDS_BETWEEN_NEWS)
                screen.wait()
                for work_of, job, host, what in self._news():
                    if work_of == self._works:
                        screen.show(job, what, f" · on {host}")
                for done in ready:
                    number = waiting.pop(done)
                    for found in self._get(done, jobs[number]):
                        yield number, found
                    screen.done(number)
        finally:
            for left in waiting:
                ray.cancel(left, force=True)

    def _news(self) -> list[Any]:
        with suppress(self.ray.exceptions.RayError):  # reports are only for show: the work continues without them
            news: list[Any] = self._board.get_nowait_batch(self._board.qsize())
            return news
        return []

    def _put(self, data: Any) -> Any:
        """Put data into the object store; data that is used several times in a row is put there once."""
        if self._kept is None or self._kept[0] is not data:
            self._kept = data, self.ray.put(data)
        return self._kept[1]

    def _threads(self, jobs: int) -> int:
        """Threads of each job: one if there are as many jobs as CPUs, never more than here. It changes no result."""
        cpus = [node.get("CPU", 0) for node in self._nodes()]
        return max(1, int(min(torch.get_num_threads(), max(cpus, default=0), sum(cpus) // jobs)))

    def _needs(self, job: Job, way: _Way) -> dict[str, Any]:
        """What a node must have free for a job; never more than the largest node has, or it would wait forever."""
        if way.device == "cuda":
            return {"num_gpus": 1, "num_cpus": 1}
        memory = job.memory + BYTES_OF_A_PROCESS
        return {"num_cpus": way.threads, "memory": min(memory, self._largest_memory() or memory)}

    def _largest_memory(self) -> int:
        """The largest memory of a node that may get a job; 0 where there is none yet."""
        return int(max((node.get("memory", 0) for node in self._nodes() if node.get("CPU")), default=0))

    def _get(self, done: Any, job: Job) -> list[Any]:
        errors = self.ray.exceptions
        try:
            found: list[Any] = self.ray.get(done)
            return found
        except errors.RayTaskError as error:
            missing = re.search(r"No module named '([\w.]+)'", str(error.cause))
            if missing:
                raise InputError(
                    f"a worker of the cluster has no module '{missing[1]}'; install accord and what it needs there, as "
                    f"here: {INSTALL}."
                ) from None
            raise error.cause from None
        except errors.RayError as error:
            why = str(error).strip().splitlines()[0]
            raise InputError(
                f"'{job.name}' lost its worker {MOST_RETRIES + 1} times ({why}); do the nodes have enough memory? "
                "The same command continues where it stopped."
            ) from None


# --- on the workers


@dataclass(frozen=True)
class _Way:
    """How jobs are done."""

    device: str
    threads: int
    deterministic: bool
    version: str


def _run(work: Work[Found], data: Any, task: Any, way: _Way, news: _Reporter) -> list[Found]:
    if way.version != __version__:
        raise InputError(
            f"the worker on {socket.gethostname()} has accord {__version__}, but this command is accord {way.version}; "
            "install the same version on every node."
        )
    torch.set_num_threads(way.threads)
    warnings.filterwarnings(
        "ignore", "The given NumPy array is not writable"
    )  # the data, which all workers of a node share
    warnings.showwarning = lambda message, *_args, **_more: news.put(str(message))
    if way.deterministic:
        deterministic()
    news.put(None)
    return list(work(data, task, torch.device(way.device), news.watch, news.put))


def _free_on_gpu() -> int:
    return Here().room(torch.device("cuda"))


@dataclass
class _Reporter:
    """Reports of a job: that it begins (None), a message, or its progress.

    They are plain values, so that the board needs no torch, and no more frequent than they are read.
    """

    board: Any
    work: int  # the number of the work, of all that were given to the cluster
    job: int
    last: float = 0.0

    def put(self, what: dict[str, Any] | str | None) -> None:
        self.board.actor.put_nowait.remote((self.work, self.job, socket.gethostname(), what))

    def watch(self, progress: Progress) -> None:
        if time.monotonic() - self.last > SECONDS_BETWEEN_NEWS:
            self.last = time.monotonic()
            self.put(asdict(progress))


# --- here again


class _Screen(Screen):
    """Says too if nothing happens."""

    def __init__(self, jobs: Sequence[Job], watch: Watch | None, say: Say) -> None:
        super().__init__(jobs, watch, say)
        self.patience = time.monotonic() + SECONDS_TO_BEGIN

    def wait(self) -> None:
        """Say once that no job has begun."""
        if not self.begun and time.monotonic() > self.patience:
            self.patience = math.inf
            self.say("no node has started a job yet: all may be busy, or none has what a job needs; see 'ray status'")
