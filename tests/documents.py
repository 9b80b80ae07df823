"""Code blocks of a document: run, and compared with what is shown below them."""

from __future__ import annotations

import atexit
import functools
import os
import re
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"-?\d+\.\d+")


SHIM = """#!/bin/sh
case "{program} $1" in
accord*|"python -c"|python*.py) exec {python} -IS {forked} ask {socket} {program} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


@functools.cache
def programs() -> Path:
    """A folder with an `accord` and a `python` that are forked from one process, for as long as this one lives."""
    folder = tempfile.TemporaryDirectory()
    forked, place = Path(__file__).with_name("forked.py"), Path(folder.name) / "socket"
    words = [sys.executable, str(forked), "serve", str(place)]
    server = subprocess.Popen(
        words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder.name, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # the first of the three to be called
    for program in ("accord", "python"):
        shim = Path(folder.name) / program
        shim.write_text(SHIM.format(program=program, python=sys.executable, forked=forked, socket=place))
        shim.chmod(0o755)
    return Path(folder.name)


def environment() -> dict[str, str]:
    """One thread, so that the numbers do not depend on the machine's cores; nothing of the terminal."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "TERM": "dumb"}


def run(language: str, code: str, folder: Path, started: bool = False) -> str:
    """Everything that is printed, without blank lines. `started`: by the programs of this environment themselves."""
    found = Path(sys.executable).parent if started else programs()
    path = f"{found}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else [str(found / "python"), "-c", code]
    done = subprocess.run(
        command, cwd=folder, env={**environment(), "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return "\n".join(line.rstrip() for line in done.stdout.splitlines() if line.strip())


def assert_same(shown: str, printed: str) -> None:
    """The words equal, and decimal numbers near: other processors round otherwise."""
    texts = [[" ".join(line.split()) for line in text.strip().splitlines()] for text in (shown, printed)]
    words = [[DECIMAL.sub("#", line) for line in text] for text in texts]
    assert words[0] == words[1], "\n".join(unified_diff(*words, "shown", "printed", lineterm=""))
    for one, other in zip(*texts, strict=True):
        numbers = [[float(number) for number in DECIMAL.findall(line)] for line in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02, rel=0.05), f"shown: {one}\nprinted: {other}"
