"""A command in a process of its own, forked from one that has loaded everything: only its own use is measured."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import accord.cli.app
import accord.comparing.compare
import accord.report.run_report

torch.set_num_threads(1)
ADDRESSES = 16 * 2**30  # bytes, so that one that fails does not take the machine with it


def command(arguments: Sequence[str], folder: Path) -> None:
    """Run `accord` with these arguments; leave what it said in `said`, and what it used in `used`."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    with (folder / "said").open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = ["accord", *arguments]
    try:
        accord.cli.app.main()
    finally:
        sys.stdout.flush()
        used = resource.getrusage(resource.RUSAGE_SELF)
        peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
        assert peak is not None
        content = {"seconds": used.ru_utime + used.ru_stime, "megabytes": int(peak[1]) >> 10}
        (folder / "used").write_text(json.dumps(content))
