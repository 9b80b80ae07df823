"""Commands of accord, and scripts of Python, that start in a moment: forked by tests/forked.py."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHIM = """#!/bin/sh
case "{program} $1" in
accord*|"python -c"|python*.py) exec {python} -IS {forked} ask {socket} {program} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


SHARED = "ACCORD_TESTS_PROGRAMS"  # names the folder of programs that the workers of pytest-xdist share


@functools.cache
def programs() -> Path:
    """A folder with an `accord` and a `python` that are forked from one process, for as long as this one lives."""
    folder = Path(os.environ[SHARED]) if SHARED in os.environ else begin()
    deadline = time.monotonic() + 600
    while not (folder / "ready").exists():
        assert time.monotonic() < deadline, "the process to fork from did not start"
        time.sleep(0.02)
    return folder


def begin() -> Path:
    """Start the process to fork from, without waiting until it has imported everything; it ends with this one."""
    folder = tempfile.TemporaryDirectory()
    forked, place = Path(__file__).with_name("forked.py"), Path(folder.name) / "socket"
    for program in ("accord", "python"):
        shim = Path(folder.name) / program
        shim.write_text(SHIM.format(program=program, python=sys.executable, forked=forked, socket=place))
        shim.chmod(0o755)
    words = [sys.executable, str(forked), "serve", str(place)]
    server = subprocess.Popen(words, env=environment(), stdin=subprocess.PIPE, cwd=folder.name)
    assert server.stdin is not None
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # the first of the three to be called
    return Path(folder.name)


def environment() -> dict[str, str]:
    """One thread, so that the numbers do not depend on the machine's cores; nothing of the terminal."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "TERM": "dumb"}


class Started(subprocess.Popen[str]):
    """A command of accord, or a script of Python, forked from the process that has imported everything."""

    def __init__(self, program: str, *words: object, **more: Any) -> None:
        place, (read, written) = programs() / "socket", os.pipe()
        begin = [sys.executable, "-IS", str(Path(__file__).with_name("forked.py")), "start", str(written), str(place)]
        command = [*begin, program, *map(str, words)]
        more = {"stderr": subprocess.PIPE, "env": environment(), "text": True} | more
        super().__init__(command, pass_fds=[written], **more)
        os.close(written)
        with os.fdopen(read, "rb") as told:
            self.forked = int.from_bytes(told.read(), "big")

    def send_signal(self, sig: int) -> None:
        """To the command itself: what stands for it here then ends in the same way."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.forked, sig)
