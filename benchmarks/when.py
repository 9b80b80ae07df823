"""What a measurement rests on: the commit of the code, the time, and the processor."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


def measured() -> dict[str, str]:
    """The commit, with a plus behind it where files differ from it, and the time; outside of a repository no commit.

    Results that are being written are no such difference.
    """
    here = Path(__file__).parent
    differing = ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)results.json"]
    commit, changes = (
        subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        for words in (["rev-parse", "--short=7", "HEAD"], differing)
    )
    name = commit.stdout.strip() + ("+" if changes.stdout.strip() else "")
    return {"commit": name or "unknown", "when": datetime.now(UTC).isoformat(timespec="seconds")}


def processor() -> str:
    """Its name, as /proc/cpuinfo or, on ARM, lscpu has it."""
    found = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    with suppress(FileNotFoundError):
        found += subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = (line.partition(":")[2].strip() for line in found.splitlines() if line.lower().startswith("model name"))
    return next(names, platform.processor() or platform.machine())
