"""The check of the wheel notices what does not run and what is not written; `make wheel-check` tries a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
import wheel_check

FAKE = """#!/usr/bin/env bash
case "$1" in
  -m) mkdir -p "$3/bin" && cp "$0" "$3/bin/pip" && cp "$0" "$3/bin/accord" ;;
  train) {train} ;;
  demo) mkdir -p runs/demo runs/clicks && touch runs/demo/report.html lists.csv page.html ;;
esac
"""


def tried(folder: Path, train: str) -> None:
    python = folder / "python"
    python.write_text(FAKE.format(train=train))
    python.chmod(0o755)
    wheel_check.try_out(str(python), folder / "accord.whl", folder)


def test_all_commands_pass(tmp_path, capsys):
    tried(tmp_path, "touch runs/clicks/metrics.json")
    said = capsys.readouterr().out
    assert all(f"accord {command}" in said for command in wheel_check.COMMANDS)


@pytest.mark.parametrize(
    ("train", "message"),
    [("echo broken >&2; exit 3", "ended with 3:\nbroken"), ("true", "left no runs/clicks/metrics.json")],
)
def test_what_fails_is_named(tmp_path, train, message):
    with pytest.raises(wheel_check.Trouble, match=message):
        tried(tmp_path, train)


def test_a_wheel_is_needed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(wheel_check, "ROOT", tmp_path)
    assert wheel_check.main([]) == 2
    assert "run `make dist`" in capsys.readouterr().err
