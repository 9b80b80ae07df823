"""How fast `accord serve` answers, with wrk as the load: python benchmarks/serve.py RUN [RUN…]

For each run folder: latency at 200 requests a second, requests a second at saturation, ten reloads under that load, and
memory over 100,000 requests. Every request asks for the 20 best items of a user drawn at random.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np
import pyarrow.parquet as pq

USERS = 1000  # distinct ones that are asked for
SECONDS = 15
CONNECTIONS = {"at a rate": 40, "saturated": 8}
RELOADS = 10
REQUESTS = 100_000

SCRIPT = """
local users = {{{users}}}
math.randomseed(7)
request = function()
  return wrk.format("GET", "/v1/recommendations?user=" .. users[math.random(#users)])
end
{delay}
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("FIGURES %d %d %d %.3f %.3f %.3f\\n", summary.requests,
    e.status + e.connect + e.read + e.write + e.timeout, summary.duration,
    latency:percentile(50) / 1000, latency:percentile(90) / 1000, latency:percentile(99) / 1000))
end
"""


@contextmanager
def server(run: Path) -> Iterator[tuple[str, int]]:
    """The address and process id of a server."""
    command = [sys.executable, "-m", "accord", "serve", str(run), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = None
    while found is None:
        line = process.stderr.readline()
        if not line:
            sys.exit(f"the server of {run} did not start")
        found = re.search(r"page (http://\S+)/", line)
    try:
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait()


class Load:
    """wrk with random users of a run."""

    def __init__(self, run: Path, address: str, folder: Path) -> None:
        ids = pq.read_table(run / "users.parquet").column("user").to_pylist()
        chosen = np.random.default_rng(1).choice(len(ids), min(USERS, len(ids)), replace=False)
        self.users = ", ".join(f'"{quote(str(ids[row]), safe="")}"' for row in chosen)
        self.address, self.folder = address, folder

    def put(self, seconds: float, rate: int | None = None) -> dict[str, float]:
        """Requests, failures, requests per second and latencies in milliseconds; without a rate as many as it can."""
        connections = CONNECTIONS["at a rate" if rate else "saturated"]
        # at random, so that connections do not all ask at the same moment
        delay = (
            "" if rate is None else f"delay = function() return math.random(0, {round(2000 * connections / rate)}) end"
        )
        script = self.folder / "load.lua"
        script.write_text(SCRIPT.format(users=self.users, delay=delay))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", str(script), self.address]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        figures = re.search(r"FIGURES (.*)", printed)
        assert figures is not None, printed
        names = ("requests", "failed", "microseconds", "p50", "p90", "p99")
        result = dict(zip(names, map(float, figures[1].split()), strict=True))
        return {**result, "rate": result["requests"] / result["microseconds"] * 1e6}


def cpu_seconds(process: int) -> float:
    """What the process has used so far: what it takes from others does not count."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(run: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, server(run) as (address, process):
        load = Load(run, address, Path(folder))
        load.put(2)  # warm
        busy = os.getloadavg()[0]
        print(f"\n{run} (others keep the machine busy: load {busy:.1f} on {os.cpu_count()} cores)", flush=True)
        at_200 = load.put(SECONDS, 200)
        print(
            "at {rate:.0f}/s: median {p50:.2f} ms, p90 {p90:.2f}, p99 {p99:.2f}, failed {failed:.0f}".format(**at_200)
        )
        before = cpu_seconds(process)
        most = load.put(SECONDS)
        each = 1000 * (cpu_seconds(process) - before) / most["requests"]
        print("saturated: {rate:.0f}/s, median {p50:.2f} ms, p99 {p99:.2f}, failed {failed:.0f}".format(**most))
        print(f"a request takes {each:.2f} ms of a core: {1000 / each:.0f}/s where it has one for itself", flush=True)

        took: list[float] = []
        done = threading.Event()

        def reload() -> None:
            for _ in range(RELOADS):
                began = time.perf_counter()
                with urlopen(Request(f"{address}/reload", method="POST"), timeout=120) as answer:
                    assert answer.status == 200
                took.append(time.perf_counter() - began)
                time.sleep(1)
            done.set()

        threading.Thread(target=reload).start()
        failed = requests = worst = 0.0
        while not done.is_set():
            part = load.put(5)
            failed, requests, worst = failed + part["failed"], requests + part["requests"], max(worst, part["p99"])
        print(
            f"{RELOADS} reloads of {np.mean(took):.1f} s each under that load: {requests:.0f} requests,"
            f" {failed:.0f} failed, p99 {worst:.1f} ms",
            flush=True,
        )
        start = memory(process)
        sizes, sent = [], 0.0
        while sent < REQUESTS:
            sent += load.put(10)["requests"]
            sizes.append(f"{memory(process):.0f}")
        print(f"memory over {sent:.0f} requests: {start:.0f} -> {', '.join(sizes)} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed; install it (Debian: apt-get install wrk).")
    for run in parser.parse_args().runs:
        measure(run)


if __name__ == "__main__":
    main()
