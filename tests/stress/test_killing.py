"""Processes that are killed: their exit codes, their output, and complaints where something is wrong."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import killing
import pytest


def test_a_process_ends_with_its_code_or_is_killed(tmp_path):
    log = tmp_path / "log"
    assert killing.life(lambda: print("said"), None, log) == 0
    assert killing.life(lambda: sys.exit(3), None, log) == 3
    assert killing.life(lambda: 1 / 0, None, log) == 70
    began = time.monotonic()
    assert killing.life(lambda: time.sleep(60), 0.1, log) is None
    assert time.monotonic() - began < 30
    assert killing.life(lambda: time.sleep(60), 0.1, log, signal.SIGTERM) is None
    assert log.read_text().startswith("said\n")
    assert "ZeroDivisionError" in log.read_text()


def test_an_undisturbed_command_must_succeed(tmp_path):
    log = tmp_path / "log"
    assert killing.undisturbed(lambda: time.sleep(0.05), log) >= 0.05
    with pytest.raises(SystemExit, match="ended with 4"):
        killing.undisturbed(lambda: os._exit(4), log)


def test_a_victim_is_started_again_until_it_is_finished(tmp_path):
    folder, log = tmp_path / "run", tmp_path / "log"

    def work():
        folder.mkdir(exist_ok=True)
        (folder / "part").touch()
        time.sleep(0.2)
        (folder / "whole").touch()

    victim = killing.Victim(
        killing.Tally("x"), folder, lambda _: work, (folder / "whole").exists, (folder / "part").exists, 0.2, log
    )
    victim.torment(random.Random(1), 3)
    assert victim.tally.kills == 3
    assert victim.tally.commands >= 1
    assert victim.tally.resumed >= 1
    assert not victim.tally.wrong
    assert (folder / "whole").exists()


def test_a_campaign_complains_where_something_is_wrong(tmp_path):
    def wrong():
        raise AssertionError("the weights are others")

    victim = killing.Victim(
        killing.Tally("train"), tmp_path / "run", lambda _: lambda: None, wrong, lambda: False, 0.01, tmp_path / "log"
    )
    victim.torment(random.Random(1), 1)
    assert victim.tally.wrong
    victim = killing.Victim(
        killing.Tally("x"), tmp_path / "run", lambda _: lambda: 1 / 0, lambda: True, lambda: False, 5, tmp_path / "log"
    )
    victim.torment(random.Random(1), 1)
    assert "ZeroDivisionError" in victim.tally.wrong[0]
