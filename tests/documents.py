"""Code blocks of a document: run, and compared with what is shown below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest

from started import environment, programs

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRESS = re.compile(r": (\d+/\d+ (tried|epochs)|\d+% of the budget)")  # a line now and then, by the clock
DECIMAL = re.compile(r"-?\d+\.\d+")


def run(language: str, code: str, folder: Path, started: bool = False) -> str:
    """What is printed, without blank lines and progress. `started`: by the programs of this environment themselves."""
    found = Path(sys.executable).parent if started else programs()
    path = f"{found}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else [str(found / "python"), "-c", code]
    done = subprocess.run(
        command, cwd=folder, env={**environment(), "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    lines = (line.rstrip() for line in done.stdout.splitlines() if not PROGRESS.search(line))
    return "\n".join(line for line in lines if line)


def assert_same(shown: str, printed: str) -> None:
    """The words equal, and decimal numbers near: other processors round otherwise. Of times, the words alone."""
    texts = [[" ".join(line.split()) for line in text.strip().splitlines()] for text in (shown, printed)]
    words = [[DECIMAL.sub("#", line) for line in text] for text in texts]
    assert words[0] == words[1], "\n".join(unified_diff(*words, "shown", "printed", lineterm=""))
    for one, other in zip(*texts, strict=True):
        if one.startswith("took "):
            continue
        numbers = [[float(number) for number in DECIMAL.findall(line)] for line in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02, rel=0.05), f"shown: {one}\nprinted: {other}"
