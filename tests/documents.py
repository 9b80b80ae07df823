"""Code blocks of a document: run, and compared with what is shown below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"-?\d+\.\d+")


def run(language: str, code: str, folder: Path) -> str:
    """Everything that is printed, without blank lines."""
    # this environment's commands first, and one thread, so that the numbers do not depend on the machine's cores
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "TERM": "dumb"}
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else ["python", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return "\n".join(line.rstrip() for line in done.stdout.splitlines() if line.strip())


def assert_same(shown: str, printed: str) -> None:
    """The words equal, and decimal numbers near: other processors round otherwise."""
    texts = [[" ".join(line.split()) for line in text.strip().splitlines()] for text in (shown, printed)]
    assert [DECIMAL.sub("#", line) for line in texts[0]] == [DECIMAL.sub("#", line) for line in texts[1]]
    for one, other in zip(*texts, strict=True):
        numbers = [[float(number) for number in DECIMAL.findall(line)] for line in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02, rel=0.05), f"shown: {one}\nprinted: {other}"
