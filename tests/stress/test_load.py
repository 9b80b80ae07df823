"""The campaign of load in small: a server at twice what it can answer, bad clients, a run folder that breaks."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

STRESS = Path(__file__).parents[2] / "stress"
SECONDS = 8


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


@pytest.mark.parametrize("change", ["body", "other run", "status", "headers"])
def test_a_wrong_answer_is_seen(load: ModuleType, change: str) -> None:
    """The campaign proves nothing if it cannot fail."""
    traffic = importlib.import_module("traffic")
    question = traffic.Question(b"GET / HTTP/1.1\r\n\r\n", {"gmf": b"right", "mf": b"of the other run"})
    head = b"HTTP/1.1 200 OK\r\n" + traffic.EVERY_ANSWER
    given = {
        "body": traffic.Answer(200, head, b"wrong"),
        "other run": traffic.Answer(200, head, b"of the other run"),
        "status": traffic.Answer(500, head, b"right"),
        "headers": traffic.Answer(200, b"HTTP/1.1 200 OK\r\n", b"right"),
    }[change]

    async def answer(_: bytes) -> object:
        return given

    clients = traffic.Clients(0, [question], traffic.Clock(os.getpid()))
    clients.serves = "gmf"
    clients._answer_to = answer
    load.asyncio.run(clients.ask_one(question))
    assert clients.tally.counts == {"wrong": 1}


def test_memory_that_grows_is_seen(load: ModuleType) -> None:
    watch = load.Watch(0, 0, None)
    for growth in (0.0, 0.2):
        watch.memory = [(float(second), 500 * (1 + growth * second / 1800)) for second in range(1800)]
        assert watch.growth() == pytest.approx(0.8 * growth / (1 + growth / 2), abs=1e-3)
        assert (watch.growth() > load.MOST_GROWTH) is (growth > 0)
