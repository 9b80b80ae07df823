"""What a measurement rests on: the commit of the code, and the time."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path


def measured() -> dict[str, str]:
    """The commit, with a plus behind it where files differ from it, and the time; outside of a repository no commit."""
    here = Path(__file__).parent
    commit, changes = (
        subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        for words in (["rev-parse", "--short=7", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    name = commit.stdout.strip() + ("+" if changes.stdout.strip() else "")
    return {"commit": name or "unknown", "when": datetime.now(UTC).isoformat(timespec="seconds")}
