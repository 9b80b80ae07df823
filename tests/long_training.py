"""A training long enough to be stopped in the middle, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "accord"]


def start_long_training(folder: str, *more: str, epochs: int = 200) -> subprocess.Popen[str]:
    words = f"train clicks.csv --method deca --epochs {epochs} --out {folder}"
    words += " --set train.early_stop=false --set train.checkpoint_seconds=0"
    return subprocess.Popen(
        [*COMMAND, *words.split(), *more],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell may have left it ignored
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.02)
