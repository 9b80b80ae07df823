"""A worker's side of the benchmark: one library in a process of its own, which trains and ranks on request.

The driver gives every library the same turn, one after the other, again and again, so that all of them see the same
noise of the machine. A worker reads the commands "epoch", "ways" (in which it can rank), "rank WAY", "forget"
and "stop", and answers each with a line of JSON.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

TOP = 20


class Stop(Exception):
    """The driver is done."""


class Turns:
    def __init__(self):
        self.answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a library prints must not be mistaken for an answer
        self.began = None

    def wait(self, ways):
        """Until the next epoch is asked for; each of `ways`, by its name, ranks all items, and may have more to say."""
        while True:
            command, _, way = sys.stdin.readline().strip().partition(" ")
            if command == "epoch":
                self.began = clocks()
                return
            if command == "ways":
                self.answer(ways=list(ways))
                continue
            if command == "forget":  # the highest memory so far, of ways that were only tried
                Path("/proc/self/clear_refs").write_text("5")
                self.answer()
                continue
            if command != "rank":
                raise Stop
            self.began = clocks()
            self.done(**(ways[way]() or {}))

    def done(self, **more):
        """What was asked for is finished."""
        wall, cpu = (now - then for now, then in zip(clocks(), self.began, strict=True))
        self.answer(seconds=wall, cpu=cpu, **more)

    def answer(self, **fields):
        self.answers.write(json.dumps(fields | {"peak": memory("VmHWM"), "now": memory("VmRSS")}) + "\n")
        self.answers.flush()


def clocks():
    return time.perf_counter(), time.process_time()


def memory(field):
    """Bytes of this process, by its name in /proc/self/status."""
    with Path("/proc/self/status").open() as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def work(train):
    """Run `train(pairs, case, turns)` until the driver stops it. Arguments: a file of pairs, and the case as JSON."""
    path, case = sys.argv[1], json.loads(sys.argv[2])
    sys.argv[1:] = []  # some libraries read it too
    turns = Turns()
    pairs = dict(np.load(path))
    with suppress(Stop):
        train(pairs, case, turns)
    turns.answer()
    turns.answers.close()
    os._exit(0)  # without the libraries' own cleanup
