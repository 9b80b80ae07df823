"""Everything at once, at random: training, comparing, auditing and serving, while processes end, disks fill, files
break and networks are cut. No answer may be wrong, and no result lost.

    python stress/chaos.py [--minutes 60] [--seed 1] [--only train compare audit serve corrupt network]

Commands run one after another, each in a folder of its own on a small disk, and are started again until they finish. A
server is asked all the time meanwhile. The disk is a tmpfs and the network two namespaces, for which root is needed;
what cannot be tried is reported. The record is written after every step, so that it is there if this is stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import killing
import network
from crash_serve import Asked, asked_all_the_time, reference_lists
from faults import Skipped, fill, full_disk
from intact import audit_is_right, results_are_right, run_is_right
from killing import Tally, Victim, accord, clicks, undisturbed, warm
from record import RESULTS, Found, Table, stamp, table_as_text

MEGABYTES = 64  # of the small disk
MEMBERS = '[{"model": "ease"}, {"model": "item-knn"}, {"model": "mf", "method": "normal", "epochs": 3}]'
LEARNED = ["--epochs", 8, "--set", "train.checkpoint_seconds=0"]
TRAINED: dict[str, list[Any]] = {
    "auto": ["--budget", 1],
    "consensus": ["--model", "consensus", "--set", f"model.members={MEMBERS}"],
    "gmf + deca-p": ["--model", "gmf", "--method", "deca-p", "--seeds", 2, *LEARNED],
    "lightgcn + deca": ["--model", "lightgcn", "--method", "deca", *LEARNED],
    "cdae + tce": ["--model", "cdae", "--method", "tce", *LEARNED],
}
COMPARED = ["--models", "gmf,ease", "--methods", "normal,deca", "--seeds", 2, "--epochs", 6, "--device", "cpu"]
SEEDS = (1, 2, 3)  # of the runs that are served
ENDS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}
FULL = ("disk is full", "no space left on device")
PATIENCE = 900  # seconds for what takes one, however busy the machine is
ROOM = 600_000  # bytes that are left on a full disk, at most: fewer than any of the folders takes
KINDS = ("train", "compare", "audit", "serve", "corrupt", "network")
OTHERS = ("serve", "corrupt", "network")  # kinds that are no commands
WEIGHTS = {"train": 40, "compare": 15, "audit": 5, "serve": 40, "corrupt": 20, "network": 1}


class Chaos:
    """What is disturbed, and what has happened to it."""

    def __init__(self, root: Path, disk: Path, draw: random.Random, fills: bool) -> None:
        self.root, self.disk, self.draw, self.fills = root, disk, draw, fills
        self.log = root / "log"
        self.data = clicks(root)
        self.victims: dict[str, list[Victim]] = {"train": [], "compare": [], "audit": []}
        self.happened: Counter[tuple[str, str]] = Counter()
        self.asked: Asked | None = None
        self.wrong: list[str] = []
        self.lost: list[str] = []
        self.skipped: dict[str, str] = {} if fills else {"full disk": "a small disk cannot be made here"}

    # --- commands that are started again until they finish

    def add_trained(self, names: list[str]) -> None:
        for name in names:
            words = ["train", self.data, *TRAINED[name], "--device", "cpu", "--k", "5,20"]
            self._add("train", name, words, run_is_right, lambda folder: any(folder.glob("checkpoint-*")), "--resume")

    def add_compared(self) -> None:
        def look(reference: Path, folder: Path) -> bool:
            return results_are_right(reference, folder, "results", "compare.csv")

        words = ["compare", self.data, *COMPARED]
        self._add("compare", "compare", words, look, lambda folder: (folder / "results.jsonl").exists())

    def add_audited(self) -> None:
        words = ["audit", self.data, "--seeds", 1, "--device", "cpu"]
        self._add("audit", "audit", words, audit_is_right, lambda folder: (folder / "unfinished").exists(), "--resume")

    def _add(
        self, kind: str, name: str, words: list[Any], look: Callable[[Path, Path], bool],
        leaves: Callable[[Path], bool], *again: str,
    ) -> None:  # fmt: skip
        place = name.replace(" + ", "-")
        reference, folder = self.root / f"{place}-reference", self.disk / place
        took = undisturbed(accord(*words, "--out", reference), self.log)

        def command(resume: bool) -> Callable[[], None]:
            return accord(*words, "--out", folder, *(again if resume else ()))

        self.victims[kind].append(
            Victim(Tally(name), folder, command, functools.partial(look, reference, folder),
                   functools.partial(leaves, folder), took, self.log)
        )  # fmt: skip
        print(f"{name}: {took:.0f} s undisturbed", flush=True)

    def work(self, kind: str) -> None:
        """One of the commands of a kind is started, and something happens to it."""
        victim = self.draw.choice(self.victims[kind])
        before, what = kept(victim.folder), self._disturbance()
        with self._full() if what == "full disk" else contextlib.nullcontext():
            seconds = self.draw.uniform(0, 1.1 * victim.took) if what in ENDS else None
            whole = victim.live(seconds, ENDS.get(what, signal.SIGKILL), FULL if what == "full disk" else ())
        self.happened[victim.tally.kind, what] += 1
        if not whole and kept(victim.folder) < before:
            self.lost.append(f"{victim.tally.kind}: of {before} parts {kept(victim.folder)} are left after a {what}")
        if what == "nothing" and not whole:
            victim.complain("not complete though nothing disturbed it")
        if whole:  # and equal to the undisturbed one, or there was a complaint
            victim.tally.commands += 1
            shutil.rmtree(victim.folder)

    def _disturbance(self) -> str:
        return self.draw.choices(["kill", "terminate", "full disk", "nothing"], [5, 2, 3 * self.fills, 1])[0]

    @contextlib.contextmanager
    def _full(self) -> Iterator[None]:
        filler = fill(self.disk, but=self.draw.randrange(ROOM))
        try:
            yield
        finally:
            filler.unlink()

    # --- a server, and what becomes of its folder

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        words = ["train", self.data, "--model", "gmf", "--method", "normal", "--epochs", 3, "--device", "cpu"]
        self.train_served = [*words, "--k", "5,20"]
        began = time.monotonic()
        known = {seed: reference_lists(self.root, self.train_served, seed, self.log) for seed in SEEDS}
        self.took = (time.monotonic() - began) / len(SEEDS)
        self.served, self.seed = self.disk / "served", SEEDS[0]
        self._copy(self.seed)
        with asked_all_the_time(self.served, known) as self.asked:
            yield

    @property
    def all_wrong(self) -> list[str]:
        """Of what the commands left, of what was served, and of all else."""
        commands = [what for group in self.victims.values() for victim in group for what in victim.tally.wrong]
        return [*self.wrong, *commands, *(f"serve: {what}" for what in (self.asked.wrong if self.asked else ()))]

    def serve(self) -> None:
        what = self.draw.choice(("trained over", "copied over", "copied in part", "broken", "killed", "terminated"))
        self.happened["serve", what] += 1
        seed = self.draw.choice(SEEDS)
        if what == "trained over":
            self._train_over(seed)
        elif what == "copied over":
            self._copy(seed, self.draw.uniform(0, 0.2))
            self._arrives()
        elif what == "copied in part":
            self._copy(seed, self.draw.uniform(0, 0.2), self.draw.randrange(1, 9))
            self.asked.reload()  # a part of one run and of another: refused, or whole if both are the same
            self._put_right()
        elif what == "broken":
            name = self.draw.choice(sorted(path.name for path in self.served.iterdir() if path.suffix != ".html"))
            broken(self.served / name, self.draw)
            status = self.asked.reload()
            if status != 409 and name != "manifest.json":
                self.wrong.append(f"serve: a broken {name} was taken ({status})")
            self._put_right()
        else:
            self._put_right()
            self.asked.restart(signal.SIGKILL if what == "killed" else signal.SIGTERM)

    def _train_over(self, seed: int) -> None:
        """Trained into the folder that is served; a whole run is always in it, the old or the new one."""
        what = self._disturbance()
        with self._full() if what == "full disk" else contextlib.nullcontext():
            replaced = accord(*self.train_served, "--seed", seed, "--out", self.served, "--overwrite")
            seconds = self.draw.uniform(0, self.took) if what in ENDS else None
            code = killing.life(replaced, seconds, self.log, ENDS.get(what, signal.SIGKILL))
        if code not in (0, None) and what != "full disk":
            self.wrong.append(f"serve: training over it ended with {code}: {self.log.read_text()[-400:]}")
        if code == 0:
            self.seed = seed
            self._arrives()
        elif what == "full disk" and not self._is_whole():
            self.lost.append("serve: the finished run is gone after the disk was full")
        else:
            self._put_right()

    def _is_whole(self) -> bool:
        return any(self._matches(seed) for seed in SEEDS)

    def _matches(self, seed: int) -> bool:
        try:
            return run_is_right(self.root / f"served-{seed}", self.served)
        except AssertionError:  # of another seed
            return False

    def _copy(self, seed: int, pause: float = 0.0, files: int | None = None) -> None:
        """Copy a run over what is there, file by file as cp does it."""
        self.served.mkdir(exist_ok=True)
        for path in sorted((self.root / f"served-{seed}").iterdir())[:files]:
            shutil.copyfile(path, self.served / path.name)
            time.sleep(pause)
        self.seed = seed if files is None else self.seed

    def _put_right(self) -> None:
        self._copy(self.seed)
        self._arrives()

    def _arrives(self) -> None:
        if not self.asked.arrives(self.seed):
            self.lost.append(f"serve: the run of seed {self.seed} was never served")

    # --- files that break

    def corrupt(self) -> None:
        """A file of a finished run is broken: the folder is refused, whatever the file."""
        reference = self.root / f"served-{self.draw.choice(SEEDS)}"
        folder = self.disk / "broken"
        shutil.copytree(reference, folder)
        name = self.draw.choice(sorted(path.name for path in folder.iterdir() if path.suffix != ".html"))
        what = broken(folder / name, self.draw)
        self.happened["corrupt", what] += 1
        try:
            if run_is_right(reference, folder) and name != "manifest.json":
                self.wrong.append(f"corrupt: {name} {what} was taken")
        except AssertionError as error:
            self.wrong.append(f"corrupt: {name} {what}: {error}")
        shutil.rmtree(folder)

    # --- a cluster whose network is cut

    def network(self) -> None:
        """A comparison on two nodes of Ray, of which one is cut off or loses its worker at a random moment."""
        reference, folder = self.root / "compare-reference", self.root / "ray-compare"
        shutil.rmtree(folder, ignore_errors=True)
        what = self.draw.choice(("network cut", "network cut and joined again", "worker killed"))
        try:
            with network.cluster(self.root) as (cable, address):
                words = ["compare", self.data, *COMPARED, "--out", folder, "--cluster", address]
                command = network.inside(cable.head, [sys.executable, "-m", "accord", *map(str, words)])
                environment = os.environ | network.SETTINGS
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
                with subprocess.Popen(command, env=environment, **pipes) as process:
                    time.sleep(self.draw.uniform(3, 20))
                    cable.kill_a_worker() if what == "worker killed" else cable.cut()
                    if what == "network cut and joined again":
                        time.sleep(self.draw.uniform(0, 20))
                        cable.join()
                    said = _to_its_end(process)
        except Skipped as reason:
            self.skipped["network"] = str(reason)
            return
        self.happened["network", what] += 1
        self.happened["network", "jobs that Ray started again"] += said.count("the task will be retried")
        if process.returncode:
            self.wrong.append(f"network: {what}, exit {process.returncode}: {said[-400:]}")
            return
        try:
            if not results_are_right(reference, folder, "results", "compare.csv"):
                self.lost.append(f"network: results are missing after {what}")
        except AssertionError as error:
            self.wrong.append(f"network: {what}: {error}")


def _to_its_end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"it had not ended after {PATIENCE} s: {process.communicate()[0]}"


def kept(folder: Path) -> int:
    """How much of the work in a folder is finished: results, parts of an audit, checkpoints."""
    lines = folder / "results.jsonl"
    done = len(lines.read_text().splitlines()) if lines.exists() else 0
    return done + len(list(folder.glob("unfinished/*.safetensors"))) + len(list(folder.glob("checkpoint-*")))


def broken(path: Path, draw: random.Random) -> str:
    """Break a file in one of the ways in which files break; returns how."""
    content = bytearray(path.read_bytes())
    what = draw.choice(("with a bit flipped", "cut short", "with a block of zeros", "replaced by random bytes"))
    place = draw.randrange(len(content))
    if what == "with a bit flipped":
        content[place] ^= 1 << draw.randrange(8)
    elif what == "cut short":
        del content[place:]
    elif what == "with a block of zeros":
        content[place : place + 512] = bytes(len(content[place : place + 512]))
        content[place] = 0 if path.read_bytes()[place] else 1  # never what it was
    else:
        content = bytearray(draw.randbytes(len(content)))
    path.write_bytes(content)
    return what


def found(chaos: Chaos, minutes: float, seed: int) -> Found:
    """What has happened in so many minutes."""
    wrong, answers = chaos.all_wrong, len(chaos.asked.runs) if chaos.asked else 0
    judged = Table("Judged", ["wrong answers and results", "lost results"], [[len(wrong), len(chaos.lost)]])
    judged.notes += [*wrong[:10], *chaos.lost[:10]]
    heads = ["command", "times", "killed", "terminated", "disk full", "undisturbed", "continued", "finished, equal"]
    work = Table("Commands, and what happened to them", heads)
    for tally in (victim.tally for group in chaos.victims.values() for victim in group):
        counts = [chaos.happened[tally.kind, what] for what in ("kill", "terminate", "full disk", "nothing")]
        work.rows.append([tally.kind, sum(counts), *counts, tally.resumed, tally.commands])
    work.notes.append("A command that was to be ended may have finished before. All that finished were compared.")
    others = Table("The server, its folder, and the cluster", ["what", "how", "times"])
    if chaos.asked:
        others.rows += [
            ["server", f"answers of the run of seed {seed}", chaos.asked.runs.count(seed)] for seed in SEEDS
        ]
    others.rows += sorted([kind, what, count] for (kind, what), count in chaos.happened.items() if kind in OTHERS)
    others.notes += [f"Not tried: {what} ({why})." for what, why in chaos.skipped.items()]
    how = [
        f"`python stress/chaos.py --seed {seed}`: {minutes:.0f} minutes of commands on a disk of {MEGABYTES} MB, each"
        " killed, terminated, or started on a full disk at random and then started again, beside a server that is asked"
        " all the time.",
        f"{answers:,} answers were compared with those of whole runs; {len(wrong)} answers and results were wrong, and"
        f" {len(chaos.lost)} results were lost.",
    ]
    return Found("Everything at once", how, [judged, work, others], made=stamp(seed))


def run(chaos: Chaos, minutes: float, only: list[str], trained: list[str], write: Callable[[float], None]) -> None:
    """Everything of `only`, at random, for so long; `write` is given the minutes that have passed, again and again."""
    if "train" in only:
        chaos.add_trained(trained)
    if {"compare", "network"} & set(only):
        chaos.add_compared()
    if "audit" in only:
        chaos.add_audited()
    steps: dict[str, Callable[[], None]] = {kind: functools.partial(chaos.work, kind) for kind in chaos.victims}
    steps |= {"serve": chaos.serve, "corrupt": chaos.corrupt, "network": chaos.network}
    with chaos.serving() if {"serve", "corrupt"} & set(only) else contextlib.nullcontext():
        began = time.monotonic()
        while time.monotonic() < began + 60 * minutes:
            kind = chaos.draw.choices(only, [WEIGHTS[kind] for kind in only])[0]
            steps[kind]()
            passed = time.monotonic() - began
            write(min(passed / 60, minutes))
            print(f"{passed:.0f} s: {kind}, {len(chaos.all_wrong)} wrong, {len(chaos.lost)} lost", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=60, help="how long (60), without the undisturbed runs before")
    options.add_argument("--seed", type=int, default=1, help="of what happens and when")
    options.add_argument("--only", nargs="+", default=list(KINDS), choices=KINDS)
    options.add_argument("--models", nargs="+", default=list(TRAINED), choices=list(TRAINED), help="that are trained")
    options.add_argument("--results", type=Path, default=RESULTS, help="folder of chaos.json")
    given = options.parse_args()
    warm()
    search = importlib.import_module("accord.consensus.search")
    search.FAR_OVER = math.inf  # on a busy machine the clock would end a search
    with tempfile.TemporaryDirectory(prefix="accord-chaos-") as name, contextlib.ExitStack() as stack:
        root = Path(name)
        disk, fills = root / "disk", True
        try:
            stack.enter_context(full_disk(disk, MEGABYTES))
        except Skipped:
            fills = False
        chaos = Chaos(root, disk, random.Random(given.seed), fills)

        def write(minutes: float) -> None:
            found(chaos, minutes, given.seed).write("chaos", given.results)

        run(chaos, given.minutes, given.only, given.models, write)
        write(given.minutes)
        print("\n\n".join(map(table_as_text, found(chaos, given.minutes, given.seed).tables)))
    return 1 if chaos.all_wrong or chaos.lost else 0


if __name__ == "__main__":
    sys.exit(main())
