"""Jobs on a Ray cluster, which places them, moves the data, and runs a job again if its worker is lost."""

from __future__ import annotations

import importlib
import os
import re
import socket
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from accord.comparing.executor import BYTES_OF_A_PROCESS, CPU_BYTES, Done, Here, Job, Say, Work, finished, with_messages
from accord.errors import Argument, InputError
from accord.fitting import deterministic
from accord.training.plan import find_device
from accord.training.trainer import Watch
from accord.version import __version__

INSTALL = "pip install 'accord[cluster]'"
SECONDS_TO_ANSWER = 5.0  # for an address
MOST_RETRIES = 3  # of a job whose worker is lost
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the frame with which both sides of HTTP/2, and so of gRPC, begin
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS


@contextmanager
def workers_on(cluster: str, say: Say) -> Iterator[Cluster]:
    """The cluster at an address, for as long as the block lasts."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise InputError(Argument("cluster"), f" needs Ray, which is not installed; {INSTALL}.") from None
    _connect(ray, cluster)
    try:
        workers = Cluster(ray)
        say(f"Ray cluster: {workers}; if nothing happens, see 'ray status'")
        yield workers
    finally:
        ray.shutdown()  # ends what is still running, and a cluster that was started only for us


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
    refused = partial(InputError, Argument("cluster", address))
    if not host or not port.isdigit() or "/" in host:
        raise refused(": give auto, or the HOST:PORT that 'ray start --head' printed.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER) as line:
            line.sendall(HTTP_2)
            answer = line.recv(len(SETTINGS))
    except (OSError, OverflowError) as error:
        asked = "is it the address that 'ray start --head' printed?"
        raise refused(f": nothing answers there ({error}); {asked}") from None
    if answer[3:4] != SETTINGS[3:4] and not os.environ.get("RAY_USE_TLS"):
        raise refused(": what answers there is not Ray; give the HOST:PORT that 'ray start --head' printed.")


class Cluster(Here):
    def __init__(self, ray: Any) -> None:
        self.ray = ray

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
        """As in one process: 4 GiB, or half of the free memory of a GPU."""
        if device.type == "cpu":
            return min(CPU_BYTES, self._largest_memory() // 2 or CPU_BYTES)
        return int(self.ray.get(self.ray.remote(_free_on_gpu).options(num_gpus=1, num_cpus=0).remote()))

    def each(
        self, work: Work[Any], data: Any, jobs: Sequence[Job], device: torch.device, watch: Watch, say: Say
    ) -> Iterator[tuple[int, Any]]:
        if not jobs:
            return
        work_there, data_there, threads = self.ray.put(work), self.ray.put(data), self._threads(len(jobs))
        how = (__version__, str(device), threads, torch.are_deterministic_algorithms_enabled())
        running = {}
        for number, job in enumerate(jobs):
            task = self.ray.remote(_run).options(max_retries=MOST_RETRIES, **self._needs(job, device, threads))
            running[task.remote(work_there, data_there, job.task, how)] = number
        waiting = list(running)
        try:
            yield from finished(running, jobs, self._as_completed(waiting), self._results, watch, say)
        finally:
            for handle in waiting:  # to cancel one that has finished can end Ray itself
                self.ray.cancel(handle, force=True)

    def _as_completed(self, waiting: list[Any]) -> Iterator[Any]:
        """The jobs in the order in which they finish, taken out of those that are waited for."""
        while waiting:
            done, waiting[:] = self.ray.wait(waiting)
            yield from done

    def _threads(self, jobs: int) -> int:
        """Threads of each job: one if there are as many jobs as CPUs, never more than here. It changes no result."""
        cpus = [node.get("CPU", 0) for node in self._nodes()]
        return max(1, int(min(torch.get_num_threads(), max(cpus, default=0), sum(cpus) // jobs)))

    def _needs(self, job: Job, device: torch.device, threads: int) -> dict[str, Any]:
        """What a node must have free for a job; never more than the largest node has, or it would wait forever."""
        if device.type == "cuda":
            return {"num_gpus": 1, "num_cpus": 1}
        memory = job.memory + BYTES_OF_A_PROCESS
        return {"num_cpus": threads, "memory": min(memory, self._largest_memory() or memory)}

    def _largest_memory(self) -> int:
        """The largest memory of a node that may get a job; 0 where there is none yet."""
        return int(max((node.get("memory", 0) for node in self._nodes() if node.get("CPU")), default=0))

    def _results(self, handle: Any, job: Job) -> Done:
        errors = self.ray.exceptions
        try:
            done: Done = self.ray.get(handle)
            return done
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


def _run(work: Work[Any], data: Any, task: Any, how: tuple[str, str, int, bool]) -> Done:
    version, device, threads, is_deterministic = how
    if version != __version__:
        raise InputError(
            f"the worker on {socket.gethostname()} has accord {__version__}, but this command is accord {version}; "
            "install the same version on every node."
        )
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # all workers of a node share the data
    if is_deterministic:
        deterministic()
    return with_messages(work, data, task, torch.device(device))


def _free_on_gpu() -> int:
    return Here().room(torch.device("cuda"))
