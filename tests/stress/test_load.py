"""The campaign of load in small: a server at twice what it can answer, bad clients, a run folder that breaks."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

STRESS = Path(__file__).parents[2] / "stress"
SECONDS = 4


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(STRESS))
    return importlib.import_module("load")


def test_some_seconds_of_it(load: ModuleType, tmp_path: Path) -> None:
    soaked, troubles = load.campaign(SECONDS, tmp_path)
    assert not troubles
    assert soaked.clients.tally.counts["right"] > 50
    assert len(soaked.watch.health) > 3
    assert soaked.folder.tried["told"] > 0
    for kind in ("no_http", "too_large", "gone", "wrong_token"):
        assert soaked.bad.ended[kind] > 0, kind
    tables = soaked.found("the command").tables
    assert [len(table.rows) for table in tables] == [17, len(soaked.bad.KINDS), len(soaked.folder.TEXTS)]
    assert soaked.figure().startswith("<?xml")


@pytest.mark.heavy
def test_five_minutes_of_it(load: ModuleType, tmp_path: Path) -> None:
    """Long enough for memory to be judged, too."""
    soaked, troubles = load.campaign(300, tmp_path)
    assert not troubles
    assert len(soaked.watch.health) > 200


def test_memory_that_grows_is_seen(load: ModuleType) -> None:
    watch = load.Watch(0, 0, None)
    for growth in (0.0, 0.2):
        watch.memory = [(float(second), 500 * (1 + growth * second / 1800)) for second in range(1800)]
        assert watch.growth() == pytest.approx(0.8 * growth / (1 + growth / 2), abs=1e-3)
        assert (watch.growth() > load.MOST_GROWTH) is (growth > 0)
