"""All campaigns by one command: each is a file that runs alone, and one that fails is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers import script

STRESS = Path(__file__).parents[2] / "stress"


@pytest.fixture
def run(monkeypatch):
    """By its path: benchmarks has a module of the same name. Nothing is really started."""
    module = script(STRESS / "run.py", "stress_run")
    module.started = []

    def start(command, check):
        name = Path(command[1]).stem
        module.started.append(name)
        return SimpleNamespace(returncode=int(name == "load"))

    monkeypatch.setattr(module.subprocess, "run", start)
    return module


def test_every_campaign_is_a_file_that_runs_alone(run):
    for name in run.CAMPAIGNS:
        assert 'if __name__ == "__main__":' in (STRESS / f"{name}.py").read_text(encoding="utf-8"), name


def test_all_of_them_then_the_page_and_who_failed(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["run.py"])
    assert run.main() == 1
    assert run.started == [*run.CAMPAIGNS, "page"]
    assert capsys.readouterr().err == "failed: load\n"


def test_some_of_them(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["run.py", "--only", "crash"])
    assert run.main() == 0
    assert run.started == ["crash", "page"]
    monkeypatch.setattr("sys.argv", ["run.py", "--only", "crahs"])
    with pytest.raises(SystemExit):
        run.main()
    assert "no campaign is called crahs; there are arithmetic, chaos" in capsys.readouterr().err
