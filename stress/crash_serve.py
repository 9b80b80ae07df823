"""A server that watches a folder into which training is killed: it serves complete runs only."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from killing import Tally, accord, clicks, life, undisturbed

SMALL = ["--device", "cpu", "--k", "5,20"]
PATIENCE = 600  # seconds for what takes one, however busy the machine is


def serve(root: Path, draw: random.Random, times: int) -> Tally:
    """A server watches a folder into which training with other seeds is repeated and killed. Every answer is of one of
    the complete runs, and the server never fails.
    """
    tally = Tally("serve --watch")
    words = ["train", clicks(root), "--method", "normal", "--epochs", 3, *SMALL]
    log, folder = root / "serve.log", root / "served"
    known = {seed: reference_lists(root, words, seed, log) for seed in (1, 2, 3)}
    took = undisturbed(accord(*words, "--seed", 1, "--out", folder, "--overwrite"), log)
    with asked_all_the_time(folder, known) as asked:
        for number in range(times):
            seed = draw.choice((1, 2, 3))
            replaced = accord(*words, "--seed", seed, "--out", folder, "--overwrite")
            code = life(replaced, draw.uniform(0, 1.1 * took), log)
            tally.kills += code is None
            tally.whole += code is None and (folder / "metrics.json").exists()
            if number % 5 == 4:  # now and then one may finish, and must be served
                life(replaced, None, log)
                tally.commands += 1
                if not asked.arrives(seed):
                    asked.wrong.append(f"the run of seed {seed} was never served")
    tally.wrong += [f"serve: {what}" for what in asked.wrong]
    tally.resumed = len(asked.runs)
    return tally


Lists = dict[str, list[tuple[Any, float]]]  # items with their scores, by user


def reference_lists(root: Path, words: list[Any], seed: int, log: Path) -> Lists:
    """The lists of every user, by a run that nothing disturbed, as the server gives them."""
    from accord.serve.snapshots import Snapshot

    folder = root / f"served-{seed}"
    undisturbed(accord(*words, "--seed", seed, "--out", folder, "--overwrite"), log)
    made = Snapshot.load(folder)
    return {str(user): listed(made.recommend(user, 10)) for user in made.user_ids}


def listed(answer: dict[str, Any]) -> list[tuple[Any, float]]:
    return [(entry["item"], entry["score"]) for entry in answer["items"]]


class Asked:
    """A server on a folder, and a thread that asks it all the time: whose run answered, and what was wrong."""

    def __init__(self, folder: Path, known: dict[int, Lists]) -> None:
        self.folder, self.known = folder, known
        self.runs: list[int] = []  # seeds, one for each answer
        self.wrong: list[str] = []
        self.ended, self.restarting = threading.Event(), threading.Lock()
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "accord", "serve", str(self.folder), "--port", "0", "--watch"]
        self.server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.server.stderr is not None
        self.address = ""
        while not self.address:
            line = self.server.stderr.readline()
            assert line, "the server has ended"
            found = re.search(r"page (http://\S+)/", line)
            self.address = found[1] if found else ""
        threading.Thread(target=self.server.stderr.read, daemon=True).start()

    def restart(self, by: int) -> None:
        """End the server by a signal, and start it again; nobody is told that there was no answer meanwhile."""
        with self.restarting:
            self.server.send_signal(by)
            code = self.server.wait(PATIENCE)
            if by == signal.SIGTERM and code != 0:
                self.wrong.append(f"a server that was told to end ended with {code}")
            self.start()

    def reload(self) -> int:
        """Have it read its folder again; returns the status of the answer."""
        asking = urllib.request.Request(f"{self.address}/reload", data=b"{}", method="POST")
        asking.add_header("Content-Type", "application/json")
        for _ in range(600):  # while it reads the folder already, it says so
            try:
                with urllib.request.urlopen(asking, timeout=PATIENCE) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    return error.code
            time.sleep(0.1)
        return 503

    def arrives(self, seed: int) -> bool:
        """Whether the run of a seed answers, now or soon."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.runs and self.runs[-1] == seed:
                return True
            time.sleep(0.05)
        return False

    def ask(self) -> None:
        users = sorted(next(iter(self.known.values())))
        draw = random.Random(0)
        while not self.ended.is_set():
            user = draw.choice(users)
            with self.restarting:
                try:
                    query = f"user={urllib.parse.quote(user)}&k=10"
                    with urllib.request.urlopen(
                        f"{self.address}/v1/recommendations?{query}", timeout=PATIENCE
                    ) as answer:
                        got = listed(json.load(answer))
                    with urllib.request.urlopen(f"{self.address}/healthz", timeout=PATIENCE) as health:
                        assert health.status == 200
                except (OSError, AssertionError, KeyError) as error:
                    self.wrong.append(f"no answer: {error}")
                    time.sleep(0.5)
                    continue
            seeds = [seed for seed, lists in self.known.items() if lists[user] == got]
            if seeds:
                self.runs.append(seeds[0])
            else:
                self.wrong.append(f"a list of none of the runs for {user}: {got}")
            time.sleep(0.02)


@contextlib.contextmanager
def asked_all_the_time(folder: Path, known: dict[int, Lists]) -> Iterator[Asked]:
    asked = Asked(folder, known)
    asking = threading.Thread(target=asked.ask)
    asking.start()
    try:
        yield asked
    finally:
        asked.ended.set()
        asking.join()
        asked.server.send_signal(signal.SIGTERM)
        asked.server.wait(PATIENCE)
