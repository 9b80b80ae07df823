"""A server at twice what it can answer, with every kind of bad client, while its run folder is swapped and broken.

`python stress/load.py [--minutes 30]`. Every answer is compared with the one that the model's own scores give.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from bad_clients import BadClients
from record import Found, Table, stamp, table_as_text
from run_folder import Folder
from scipy import stats
from traffic import LINES, LONGEST, PATIENCE, TOKEN, Clients, Clock, questions

import accord
from accord_lab.drawing import STYLES, drawn, legend_below, panels

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FIGURE = "load-memory.svg"
HEALTH_SECONDS = 10.0  # a health check that takes longer has failed
HEALTH_EVERY = 0.5
MOST_GROWTH = 0.05  # of the memory, from its line over time
CUT = "What the end of the campaign cut short is in neither of the last two columns."
BETWEEN = "Between the changes every answer must be of the run that is served, during one of the old or of the new."
WARM = 0.2  # of the time: caches fill


def make_runs(folder: Path) -> dict[str, Path]:
    """Two runs of the same data that recommend different things."""
    data = accord.simulate(seed=3).dataset
    runs = {}
    for model in ("gmf", "mf"):
        accord.fit(data, model, "normal", epochs=5, out=folder / model)
        runs[model] = folder / model
    return runs


@contextmanager
def server(run: Path, said: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of `accord serve`, as a user starts it; it must end with exit code 0 when stopped."""
    command = [sys.executable, "-m", "accord", "serve", str(run), "--port", "0", "--watch"]
    with said.open("w") as out:
        process = subprocess.Popen(command, stderr=out, env={**os.environ, "ACCORD_TOKEN": TOKEN})
    try:
        while not (found := re.search(r"page http://127.0.0.1:(\d+)/", said.read_text())):
            if process.poll() is not None:
                sys.exit(f"the server did not start: {said.read_text()}")
            time.sleep(0.1)
        yield int(found[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    if code != 0:
        raise SystemExit(f"the server ended with {code}: {said.read_text()[-2000:]}")


@dataclass
class Watch:
    """What is seen of the server from outside: health checks, memory, open files."""

    port: int
    process: int
    clock: Clock
    health: list[float] = field(default_factory=list)
    felt: list[float] = field(default_factory=list)  # by our clock
    failed: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MB
    files: list[int] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    async def look(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while True:
            pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
            self.memory.append((time.monotonic() - self.began, pages * page / 1e6))
            self.files.append(len(list(Path(f"/proc/{self.process}/fd").iterdir())))
            await asyncio.sleep(1)

    def check(self, stop: threading.Event) -> None:
        """On a new connection each time, as monitoring does; in a thread, so that it does not wait for our clients."""
        number = 0
        while not stop.wait(HEALTH_EVERY):
            began, number = self.clock.now(), number + 1
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
            try:
                line.request("GET", ("/healthz", "/readyz")[number % 2])
                status = line.getresponse().status
                if status != 200:
                    self.failed.append(f"status {status}")
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{type(error).__name__} after {self.clock.since(began):.1f} s")
            finally:
                line.close()
            self.felt.append(self.clock.since(began))
            self.health.append(time.monotonic() - began[0])
            if self.felt[-1] > HEALTH_SECONDS:
                self.failed.append(f"answered after {self.felt[-1]:.1f} s")

    def slope(self) -> tuple[float, float]:
        """MB an hour and its standard error, once warm."""
        seconds, size = np.array(self.memory).T
        warm = seconds >= WARM * seconds[-1]
        line = stats.linregress(seconds[warm] / 3600, size[warm])
        return float(line.slope), float(line.stderr)

    def growth(self) -> float:
        """What the line makes of the time after the warm part, as a share of the memory."""
        return (
            self.slope()[0] * (1 - WARM) * self.memory[-1][0] / 3600 / float(np.median([mb for _, mb in self.memory]))
        )


async def soak(port: int, process: int, link: Path, runs: dict[str, Path], seconds: float) -> tuple[Soaked, list[str]]:
    measure = min(10.0, seconds / 5)
    clock = Clock(process)
    clients = Clients(port, questions(runs), clock)
    clients.serves = next(iter(runs))
    await clients.saturate(measure / 2)
    saturated = await clients.saturate(measure)
    clients.tally, clients.began = type(clients.tally)(), time.monotonic()
    watch, folder, bad = Watch(port, process, clock), Folder(link, runs, clients), BadClients(port, clock)
    began = clock.now()
    tasks = [asyncio.create_task(job) for job in (watch.look(), folder.turn(min(3.0, seconds / 20)))]
    stop = threading.Event()
    checking = asyncio.create_task(asyncio.to_thread(watch.check, stop))
    bad.start()
    await clients.offer(2 * saturated, seconds)
    await bad.stop()
    stop.set()
    await checking
    troubles = [f"{task.exception()!r}" for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    passed, waited, _ = (now - before for now, before in zip(clock.now(), began, strict=True))
    await clients.offer(20, min(5.0, seconds / 5))  # and afterwards it answers as before
    clients.close()
    return Soaked(seconds, saturated, waited / passed, clients, watch, folder, bad), troubles


@dataclass
class Soaked:
    seconds: float
    saturated: float
    starved: float  # share of the time in which the server was ready to work and had no CPU
    clients: Clients
    watch: Watch
    folder: Folder
    bad: BadClients

    def troubles(self, log: str) -> list[str]:
        """Whatever is not as it should be, in sentences."""
        counts, watch = self.clients.tally.counts, self.watch
        found = [f"wrong answer: {what}" for what in self.clients.tally.wrong]
        found += [f"health check failed: {what}" for what in watch.failed]
        found += [f"{kind}: {what}" for kind, what in self.bad.wrong]
        found += [f"reload: {what}" for what in self.folder.wrong]
        if self.folder.wrong:
            found += [f"the server's log: {line}" for line in log.splitlines() if "reload" in line][-20:]
        if "Traceback" in log:
            found.append(f"the server's log has a trace: {log[log.index('Traceback') :][:2000]}")
        if self.seconds >= 60 and not (counts["right"] and counts["refused"]):
            found.append(f"{counts['right']} right and {counts['refused']} refused: the server was not overloaded")
        if self.seconds >= 300 and watch.growth() > MOST_GROWTH:
            found.append(f"memory grows by {watch.growth():.1%} over the time")
        return found

    def found(self, command: str) -> Found:
        counts, watch, seconds = self.clients.tally.counts, self.watch, self.clients.tally.seconds
        slope, error = watch.slope()
        size = [mb for _, mb in watch.memory]
        sent = sum(counts[kind] for kind in ("right", "refused", "wrong"))
        p50, p99 = (1000 * float(value) for value in np.percentile(seconds, [50, 99]))
        load = [
            ("saturated: answers a second, 8 clients that ask again at once", f"{self.saturated:.0f}"),
            ("offered: requests a second", f"{2 * self.saturated:.0f}"),
            ("sent", sent),
            ("not sent, for want of a free client connection", counts["no line free"]),
            ("answered, compared and right", counts["right"]),
            ("refused: 503 with Retry-After", counts["refused"]),
            ("**wrong, late or lost**", counts["wrong"]),
            ("sent again on another connection, the server having closed an idle one", counts["sent again"]),
            ("right answers: median, p99", f"{p50:.0f} ms, {p99:.0f} ms"),
            ("health checks, half a second after one another, each on a new connection", len(watch.health)),
            (f"**failed health checks**, or not answered within {HEALTH_SECONDS:g} s", len(watch.failed)),
            ("health checks: median, p99, slowest", in_ms(watch.health)),
            ("the same without the time for which others had the CPUs", in_ms(watch.felt)),
            ("time in which the server was ready to work and others had the CPUs", f"{self.starved:.0%}"),
            ("memory: median, most", f"{np.median(size):.0f} MB, {max(size):.0f} MB"),
            ("**memory over time**", f"{slope:+.1f} ± {2 * error:.1f} MB an hour"),
            ("open files of the server: median, most", f"{np.median(watch.files):.0f}, {max(watch.files)}"),
        ]  # fmt: skip
        faults = []
        for kind, (text, at_once, expected) in self.bad.KINDS.items():
            wrong = sum(one == kind for one, _ in self.bad.wrong)
            faults.append((text, at_once, self.bad.tried[kind], expected, self.bad.ended[kind], wrong))
        reloads = [
            (
                text,
                self.folder.tried[step],
                expected,
                self.folder.done[step],
                sum(w.startswith(step) for w in self.folder.wrong),
            )
            for step, (text, expected) in Folder.TEXTS.items()
        ]
        return Found(
            "The server under load and faults",
            [
                f"`{command}`: {self.seconds / 60:g} minutes of `accord serve --watch` with a token; clients and",
                "server are on the same two cores, which had other work too; 1,000 users and 600 items.",
                "The rate is twice what the server answers when it is just saturated, on at most",
                f"{LINES} connections; asked for are lists, many lists, histories, similar items and search.",
                f"Limits ({PATIENCE:g} s for an answer, {HEALTH_SECONDS:g} s for a health check) leave out the time in",
                "which the server or the clients were ready to work and others had the CPUs, by the kernel's account.",
            ],
            [
                Table("Load", ("", ""), load),
                Table("Clients", ("what they do", "at once", "times", "expected", "ended so", "otherwise"),
                      faults, [CUT]),
                Table("The run folder meanwhile", ("what happens to it", "times", "expected", "so", "otherwise"),
                      reloads, [BETWEEN]),
            ],
            [FIGURE],
            stamp(0),
        )  # fmt: skip

    def figure(self) -> str:
        canvas, (left, right) = panels(2, width=4.6, height=3.2)
        minutes, size = np.array(self.watch.memory).T / [[60], [1]]
        left.plot(minutes, size, color="#000000", linewidth=1)
        left.set(title="Memory of the server", xlabel="minutes", ylabel="MB", ylim=(0, 1.15 * max(size)))
        width = max(1, int(self.seconds / 60))
        places = np.arange(0, int(self.seconds), width)
        for kind, look in zip(("right", "refused"), STYLES, strict=False):
            each = [sum(self.clients.tally.by_second[kind, p + n] for n in range(width)) / width for p in places]
            right.plot(places / 60, each, label=kind, **{**look, "marker": ""})
        right.set(title="Answers", xlabel="minutes", ylabel="a second", ylim=(0, None))
        for axis in (left, right):
            axis.grid(axis="y")
        legend_below(canvas, [right])
        return drawn(canvas, FIGURE, "", "").svg


def in_ms(seconds: list[float]) -> str:
    figures = (*np.percentile(seconds, [50, 99]), max(seconds))
    return ", ".join(f"{1000 * figure:.0f} ms" for figure in figures)


def campaign(seconds: float, folder: Path) -> tuple[Soaked, list[str]]:
    """A server, its clients, and everything that went wrong."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    runs, link, said = make_runs(folder), folder / "current", folder / "said.txt"
    link.symlink_to(runs["gmf"])
    try:
        with server(link, said) as (port, process):
            soaked, troubles = asyncio.run(soak(port, process, link, runs, seconds))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soaked, troubles + soaked.troubles(said.read_text())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=30, help="how long (30)")
    minutes = options.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        soaked, troubles = campaign(60 * minutes, Path(folder))
    found = soaked.found(f"python stress/load.py --minutes {minutes:g}")
    print("\n\n".join(table_as_text(table) for table in found.tables))
    found.write("load")
    (IMAGES / FIGURE).write_text(soaked.figure(), encoding="utf-8")
    for trouble in troubles:
        print(f"trouble: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
