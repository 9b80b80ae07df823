"""The driver's side of the turns: libraries in processes of their own, which take turns."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PYTHON = {  # ours, and the peers'
    True: os.environ.get("ACCORD_PYTHON", HERE.parent / ".venv/bin/python"),
    False: os.environ.get("PEERS_PYTHON", HERE.parent / ".bench-venv/bin/python"),
}
OURS = (  # workers that need ours
    "ours", "ours_curves", "products", "steps", "solved", "every_solved", "lists",
)  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "THREADS")
Answer = dict[str, Any]


class Worker:
    """A script of workers/ with its pairs and its case."""

    def __init__(self, script: str, pairs: Path, case: Mapping[str, Any], threads: int) -> None:
        self.name = f"{script} {json.dumps(case)}"
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [PYTHON[script in OURS], HERE / "workers" / f"{script}.py", pairs, json.dumps(case)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
        )  # fmt: skip

    def ask(self, command: str) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"the worker {self.name} ended at '{command}':\n{self.log.read()[-2000:]}")
        answer: Answer = json.loads(line)
        return answer


@contextlib.contextmanager
def working(
    scripts: Mapping[str, tuple[str, Mapping[str, Any]]], pairs: Path, threads: int = 1
) -> Iterator[dict[str, Worker]]:
    """Workers by name, ended afterwards whatever happens. `scripts`: name -> (script, case)."""
    workers: dict[str, Worker] = {}
    try:
        for name, (script, case) in scripts.items():
            workers[name] = Worker(script, pairs, case, threads)
        yield workers
    finally:
        for worker in workers.values():
            worker.process.kill()
            worker.process.wait()
            worker.log.close()


def _tried(worker: Worker) -> dict[str, Any]:
    ways = worker.ask("ways")["ways"]
    tried = {way: worker.ask(f"rank {way}")["cpu"] for way in ways}
    for way in ways:
        if tried[way] < 2 * min(tried.values()):  # a second chance
            tried[way] = min(tried[way], worker.ask(f"rank {way}")["cpu"])
    return {"tried": tried, "way": min(tried, key=lambda way: tried[way])}


def in_turn(workers: Mapping[str, Worker], commands: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    """Ask every worker for each of `commands` in turn, again and again: of each worker [wall, CPU] seconds by command.

    The first epoch, with imports and compilation, is a warm-up. Then each way to rank is tried, and the fastest is the
    one that is measured.
    """
    found: dict[str, dict[str, Any]] = {name: {command: [] for command in commands} for name in workers}
    for name, worker in workers.items():
        worker.ask("epoch")
        if "rank" in commands:
            found[name] |= _tried(worker)
        worker.ask("forget")
    for _ in range(rounds):
        for command in commands:
            for name, worker in workers.items():
                answer = worker.ask(f"rank {found[name]['way']}" if command == "rank" else command)
                found[name][command].append([answer["seconds"], answer["cpu"]])
                found[name]["peak"] = answer["peak"]
    return found
