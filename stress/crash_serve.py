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
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from killing import Tally, accord, clicks, life, undisturbed

SMALL = ["--device", "cpu", "--k", "5,20"]


def serve(root: Path, draw: random.Random, times: int) -> Tally:
    """A server watches a folder into which training with other seeds is repeated and killed. Every answer is of one of
    the complete runs, and the server never fails.
    """
    tally = Tally("serve --watch")
    words = ["train", clicks(root), "--method", "normal", "--epochs", 3, *SMALL]
    log, folder = root / "serve.log", root / "served"
    known = {seed: reference_lists(root, words, seed, log) for seed in (1, 2, 3)}
    took = undisturbed(accord(*words, "--seed", 1, "--out", folder, "--overwrite"), log)
    with watching(folder, known) as (asked, wrong):
        for number in range(times):
            seed = draw.choice((1, 2, 3))
            replaced = accord(*words, "--seed", seed, "--out", folder, "--overwrite")
            code = life(replaced, draw.uniform(0, 1.1 * took), log)
            tally.kills += code is None
            tally.whole += code is None and (folder / "metrics.json").exists()
            if number % 5 == 4:  # now and then one may finish, and must be served
                life(replaced, None, log)
                tally.commands += 1
                if not arrives(asked, seed):
                    wrong.append(f"the run of seed {seed} was never served")
    tally.wrong += [f"serve: {what}" for what in wrong]
    tally.resumed = len(asked)
    return tally


def reference_lists(root: Path, words: list[Any], seed: int, log: Path) -> list[Any]:
    import accord as library

    folder = root / f"served-{seed}"
    undisturbed(accord(*words, "--seed", seed, "--out", folder, "--overwrite"), log)
    table = library.Recommender.load(folder).recommend(["u0001"], k=10)
    return table.column("item").to_pylist()


def arrives(asked: list[int], seed: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if asked and asked[-1] == seed:
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def watching(folder: Path, known: dict[int, list[Any]]) -> Iterator[tuple[list[int], list[str]]]:
    """A server, and a thread that asks it all the time: the seeds that answered, and what was wrong."""
    command = [sys.executable, "-m", "accord", "serve", str(folder), "--port", "0", "--watch"]
    asked: list[int] = []
    wrong: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = None
        while address is None:
            line = server.stderr.readline()
            assert line, "the server has ended"
            found = re.search(r"page (http://\S+)/", line)
            address = found[1] if found else None
        threading.Thread(target=server.stderr.read, daemon=True).start()
        ended = threading.Event()
        asking = threading.Thread(target=ask, args=(address, known, asked, wrong, ended))
        asking.start()
        try:
            yield asked, wrong
        finally:
            ended.set()
            asking.join()
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def ask(address: str, known: dict[int, list[Any]], asked: list[int], wrong: list[str], ended: threading.Event) -> None:
    seeds = {tuple(items): seed for seed, items in known.items()}
    while not ended.is_set():
        try:
            with urllib.request.urlopen(f"{address}/v1/recommendations?user=u0001&k=10", timeout=30) as answer:
                items = tuple(entry["item"] for entry in json.load(answer)["items"])
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as health:
                assert health.status == 200
        except (OSError, AssertionError, KeyError) as error:
            wrong.append(f"no answer: {error}")
            time.sleep(0.5)
            continue
        if items in seeds:
            asked.append(seeds[items])
        else:
            wrong.append(f"a list of none of the runs: {items}")
        time.sleep(0.02)
