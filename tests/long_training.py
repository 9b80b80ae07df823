"""A training long enough to be stopped in the middle, in a process of its own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from started import Started


def start_long_training(folder: str, *more: str, epochs: int = 200) -> Started:
    words = f"train clicks.csv --method deca --epochs {epochs} --out {folder}"
    words += " --set train.early_stop=false --set train.checkpoint_seconds=0"
    return Started("accord", *words.split(), *more)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)
