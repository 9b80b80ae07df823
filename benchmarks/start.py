"""How long a command takes until its first line, in CPU seconds of its process: a part of `run.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

TIMES = 5
ACCORD = [sys.executable, "-m", "accord"]


def commands(folder: Path) -> dict[str, list[str]]:
    """What is started; each prints something. The log is a small file."""
    rng = np.random.default_rng(0)
    rows = [f"u{rng.integers(150)},i{int(100 * rng.random() ** 2)}" for _ in range(3_000)]
    (folder / "small.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    return {
        "accord --help": [*ACCORD, "--help"],
        "import accord": [sys.executable, "-c", "import accord; print()"],
        "accord train": [*ACCORD, "train", str(folder / "small.csv"), "--out", str(folder / "run"), "--overwrite"],
    }


def until_first_line(command: list[str]) -> float:
    """CPU seconds; of a command that has ended by then, all of them."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        process.kill()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def start(folder: Path) -> dict[str, Any]:
    asked = commands(folder)
    found: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(TIMES + 1):
        for name, command in asked.items():
            seconds = until_first_line(command)
            if turn:  # the first time reads files and compiles
                found[name].append(seconds)
    return {"cpu": found}
