"""Many runs on Ray: two nodes on this machine, a worker killed, a node killed, an interruption; the same results.

    python benchmarks/scale_ray.py

Runs `accord compare` on the built-in data without and with a cluster, and writes benchmarks/scale/ray.json.
Nothing is timed that two cores would be shared for.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import psutil
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

from accord.data.load import load

WORDS = "--models mf,gmf --methods normal,deca --seeds 2 --epochs 4 --device cpu"
NODE = {"num_cpus": 1, "object_store_memory": 200 * 2**20, "memory": 4 * 2**30}
OUT = Path(__file__).parent / "scale" / "ray.json"
OURS = "ray::_run"  # what Ray calls a worker while it runs a stack


def command(data: str, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "accord", "compare", data, *WORDS.split(), "--out", str(out), *more]


def lines(out: Path) -> list[dict[str, Any]]:
    """The lines of a results file, but for how long each run took."""
    file = out / "results.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [{key: value for key, value in line.items() if key != "seconds"} for line in found]


def equal(one: Path, other: Path) -> bool:
    users = [pq.read_table(folder / "results.per_user.parquet") for folder in (one, other)]
    return lines(one) == lines(other) and users[0].equals(users[1])


def ray_processes() -> list[psutil.Process]:
    """All that the cluster of this process has started."""
    found = psutil.Process().children(recursive=True)
    return [one for one in found if "ray" in " ".join(one.cmdline()[:4])]


def disturbed(words: list[str], out: Path, disturb: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str]:
    """Run a command, and disturb it once something is finished and something else is being trained."""
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None and not (lines(out) and any(map(is_ours, ray_processes()))):
            time.sleep(0.1)
        disturb(process)
        printed = process.communicate()[1]
    return process.returncode, printed


def is_ours(process: psutil.Process) -> bool:
    try:
        return bool(process.cmdline()) and process.cmdline()[0].startswith(OURS)
    except psutil.Error:
        return False


def kill_a_worker(_process: subprocess.Popen[str]) -> None:
    next(one for one in ray_processes() if is_ours(one)).kill()


def measure(data: str, folder: Path) -> dict[str, Any]:
    here = folder / "here"
    subprocess.run(command(data, here), check=True, capture_output=True)
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    second = cluster.add_node(**NODE)
    there = ("--cluster", cluster.address)
    found: dict[str, Any] = {"data": data, "command": WORDS, "runs": len(lines(here))}
    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        before = ray.available_resources()["object_store_memory"]
        kept = ray.put(load(data))
        time.sleep(2)  # resources are counted only now and then
        found["dataset_bytes"] = int(before - ray.available_resources()["object_store_memory"])
        del kept
        ray.shutdown()
        found["ray_processes_bytes"] = sum(one.memory_info().rss for one in ray_processes() if not is_ours(one))

        out = folder / "worker"
        code, printed = disturbed(command(data, out, *there), out, kill_a_worker)
        found["worker_killed"] = {"exit": code, "run_again": printed.count("again, as"), "equal": equal(here, out)}

        out = folder / "node"
        code, printed = disturbed(
            command(data, out, *there), out, lambda _: cluster.remove_node(second, allow_graceful=False)
        )
        found["node_killed"] = {"exit": code, "run_again": printed.count("again, as"), "equal": equal(here, out)}

        cluster.add_node(**NODE)
        out = folder / "stopped"
        began: list[float] = []

        def interrupt(process: subprocess.Popen[str]) -> None:
            began.append(time.monotonic())
            process.send_signal(signal.SIGINT)

        code, printed = disturbed(command(data, out, *there), out, interrupt)
        stopped = {"exit": code, "seconds": round(time.monotonic() - began[0], 1), "kept": len(lines(out))}
        stopped["said"] = printed.strip().splitlines()[-1]
        stopped["left_running"] = sum(map(is_ours, ray_processes()))
        subprocess.run(command(data, out, *there), check=True, capture_output=True)
        found["stopped"] = stopped | {"equal_when_continued": equal(here, out)}
    finally:
        cluster.shutdown()
    for name, address in (("refused", "127.0.0.1:1"), ("unreachable", "192.0.2.99:6379")):
        start = time.monotonic()
        ended = subprocess.run(command(data, folder / name, "--cluster", address), capture_output=True, text=True)
        found[name] = {"exit": ended.returncode, "seconds": round(time.monotonic() - start, 1)}
        found[name]["said"] = ended.stderr.strip()
    return found


def main() -> None:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which a shell takes from what it starts in the background
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="demo")
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as folder:
        found = measure(data, Path(folder))
    found["ray"] = ray.__version__
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
