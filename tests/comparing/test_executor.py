"""Jobs in this process: their order, the memory they may take, and the time left."""

from __future__ import annotations

import pytest

from accord.comparing.executor import CPU_BYTES, Here, Job, TimeLeft
from helpers import CPU


def test_room_and_order_of_this_process():
    assert 0 < Here().room(CPU) <= 4 * 2**30
    said = []
    found = list(Here().each(lambda *_: iter("ab"), None, [Job("x", 1), Job("y", 2)], CPU, None, said.append))
    assert found == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert said == ["1 of 2: x", "2 of 2: y"]  # seconds are not worth a word


def test_the_time_left_is_guessed_by_size(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("accord.comparing.executor.time.perf_counter", lambda: now[0])
    small, large = Job("small", None, size=1), Job("large", None, size=8)
    left = TimeLeft([small, small, large], began=now[0])
    assert str(left) == ""  # nothing is known yet
    now[0] += 60
    left.done(small)
    assert str(left) == ""  # a tenth says little of the rest
    now[0] += 60
    left.done(small)
    assert str(left) == " · about 8 min left"
    now[0] += 110
    left.done(large)
    assert str(left) == ""


def test_devices_are_found_by_name():
    assert Here().device("cpu") == CPU
    assert Here().room(CPU) <= CPU_BYTES
    with pytest.raises(Exception, match="unknown device"):
        Here().device("tpu")
