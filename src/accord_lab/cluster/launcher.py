"""One large run on a Ray cluster: processes as torchrun starts them on one machine, on the nodes that have room."""

from __future__ import annotations

import importlib
import io
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from accord.cli.display import say
from accord.errors import InputError
from accord_lab.cluster.executor import workers_on

SECONDS_FOR_ROOM = 60.0
SECONDS_BETWEEN_LOOKS = 0.3


def train_on(cluster: str, processes: int, device: str, words: Sequence[str]) -> int:
    """Run a command in several processes and print their output; the exit code is that of one that failed, or 0."""
    if processes < 1:
        raise InputError(f"--ranks {processes}: give at least 1.")
    with workers_on(cluster, say) as workers:
        needs = {"num_cpus": 1, "num_gpus": int(workers.device(device).type == "cuda")}
        started = _start(workers.ray, processes, needs)
        address, port = workers.ray.get(started[0].meeting_place.remote())
        meeting = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "LOCAL_RANK": "0"}
        lines = importlib.import_module("ray.util.queue").Queue(actor_options={"num_cpus": 0})
        running = [
            process.run.remote(list(words), str(Path.cwd()), meeting | {"RANK": str(number)}, lines)
            for number, process in enumerate(started)
        ]
        return _print_lines(workers.ray, running, lines)


def _start(ray: Any, processes: int, needs: dict[str, int]) -> list[Any]:
    """All processes or none: a few alone would wait for the others, and hold what those need."""
    groups = importlib.import_module("ray.util.placement_group")
    where = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
    names = {"CPU": needs["num_cpus"], "GPU": needs["num_gpus"]}
    group = groups.placement_group([{name: size for name, size in names.items() if size}] * processes, strategy="PACK")
    if not group.wait(SECONDS_FOR_ROOM):  # not its ready(), a task that may wait for minutes on a busy node
        groups.remove_placement_group(group)
        kind = "GPU" if needs["num_gpus"] else "CPU"
        raise InputError(f"--ranks {processes}: the cluster has no free {kind} for every process; see 'ray status'.")
    return [
        ray.remote(Process).options(**needs, scheduling_strategy=where(group, number)).remote()
        for number in range(processes)
    ]


def _print_lines(ray: Any, running: list[Any], lines: Any) -> int:
    """Print the lines of all processes until they have ended; the largest exit code."""
    codes: list[int] = []
    while running:
        ready, running = ray.wait(running, timeout=SECONDS_BETWEEN_LOOKS)
        for name, line in lines.get_nowait_batch(lines.qsize()):
            print(line, file=getattr(sys, name), flush=True)
        for one in ready:
            try:
                codes.append(ray.get(one))
            except ray.exceptions.RayActorError:
                codes.append(2)  # the other processes notice, and print it
    return max(codes)


class Process:
    """A process on the cluster that takes part in the training."""

    def meeting_place(self) -> tuple[str, int]:
        """An address of this node, and a port that is free there."""
        with socket.socket() as free:
            free.bind(("", 0))
            port: int = free.getsockname()[1]
        return importlib.import_module("ray").util.get_node_ip_address(), port

    def run(self, words: list[str], folder: str, environment: dict[str, str], lines: Any) -> int:
        """Run the command in this process, which ends with the job on the cluster; its output goes to `lines`."""
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = ["accord", *words]
        with redirect_stdout(_Lines("stdout", lines)), redirect_stderr(_Lines("stderr", lines)):
            try:
                runpy.run_module("accord", run_name="__main__")
            except SystemExit as end:
                return end.code if isinstance(end.code, int) else int(end.code is not None)
        return 0


class _Lines(io.TextIOBase):
    """Puts what is written into a queue, line by line."""

    def __init__(self, name: str, lines: Any) -> None:
        self.name, self.lines, self.rest = name, lines, ""

    def write(self, text: str) -> int:
        *whole, self.rest = (self.rest + text).split("\n")
        for line in whole:
            self.lines.put((self.name, line))
        return len(text)
