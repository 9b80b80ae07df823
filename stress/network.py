"""A Ray cluster of two nodes whose network can be cut: each has a network namespace of its own, joined by one cable.

Only root can make one; `Skipped` says why it cannot be made.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults import Skipped

HEAD, WORKER = "10.77.0.1", "10.77.0.2"
PORT = 6399
SMALL = [
    *("--num-cpus", "1", "--object-store-memory", str(80 * 2**20), "--memory", str(2 * 2**30)),
    *("--disable-usage-stats", "--block"),
]
# A node that does not answer for ten seconds is given up; Ray itself waits for up to seven minutes. Nobody else is on
# this network, so no token is asked for.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "2",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}
SECONDS_TO_START = 300


class Network:
    """Two namespaces and the cable between them. Commands of `head` and `worker` see nothing else."""

    def __init__(self) -> None:
        own = f"accord{os.getpid()}"
        self.head, self.worker = f"{own}a", f"{own}b"

    def make(self) -> None:
        for name in (self.head, self.worker):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", self.head, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.worker)
        for name, address in ((self.head, HEAD), (self.worker, WORKER)):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")

    def cut(self) -> None:
        _ip("-n", self.worker, "link", "set", "cable", "down")

    def join(self) -> None:
        _ip("-n", self.worker, "link", "set", "cable", "up")

    def kill_a_worker(self) -> None:
        """Kill a process that works for us on the worker's node, if there is one."""
        listed = subprocess.run(["ip", "netns", "pids", self.worker], capture_output=True, text=True, check=True).stdout
        for pid in listed.split():
            with contextlib.suppress(OSError):
                if Path("/proc", pid, "cmdline").read_bytes().startswith(b"ray::_run"):
                    os.kill(int(pid), signal.SIGKILL)
                    return

    def remove(self) -> None:
        for name in (self.head, self.worker):
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skipped("there is no command ip") from None
    if done.returncode:
        raise Skipped(f"a network namespace cannot be made here ({done.stderr.strip()})")


def inside(place: str, words: Sequence[str]) -> list[str]:
    return ["ip", "netns", "exec", place, *words]


@contextlib.contextmanager
def cluster(root: Path) -> Iterator[tuple[Network, str]]:
    """The network and the address of the head, once both nodes are there."""
    if importlib.util.find_spec("ray") is None:
        raise Skipped("Ray is not installed")
    network, nodes = Network(), []
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start"]
    head = ["--head", "--port", str(PORT), "--node-ip-address", HEAD, "--include-dashboard", "false"]
    head += ["--temp-dir", str(root / "ray")]
    try:
        network.make()
        with (root / "ray.log").open("w") as log:
            for place, words in (
                (network.head, head),
                (network.worker, ["--address", f"{HEAD}:{PORT}", "--node-ip-address", WORKER]),
            ):
                command = inside(place, [*ray, *words, *SMALL])
                nodes.append(
                    subprocess.Popen(command, env=os.environ | SETTINGS, stdout=log, stderr=log, start_new_session=True)
                )
                _wait(network, nodes[-1], len(nodes), root / "ray.log")
        yield network, f"{HEAD}:{PORT}"
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()
        network.remove()


def _wait(network: Network, node: subprocess.Popen[bytes], number: int, log: Path) -> None:
    """Until so many nodes are there."""
    look = f"import ray; ray.init('{HEAD}:{PORT}', logging_level='ERROR', log_to_driver=False); "
    look += f"import sys; sys.exit(sum(n['Alive'] for n in ray.nodes()) != {number})"
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and node.poll() is None:
        if "Ray runtime started" in log.read_text() and number == log.read_text().count("Ray runtime started"):
            done = subprocess.run(
                inside(network.head, [sys.executable, "-c", look]),
                capture_output=True,
                check=False,
                env=os.environ | SETTINGS,
            )
            if done.returncode == 0:
                return
        time.sleep(0.5)
    raise AssertionError(f"a node of Ray did not start: {log.read_text()[-1000:]}")
