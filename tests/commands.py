"""Commands of accord in this process, as a user types them."""

from __future__ import annotations

import sys

import pytest

from accord.cli.app import main


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["accord", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    code = stop.value.code or 0
    assert isinstance(code, int)
    return code, printed.out, printed.err
