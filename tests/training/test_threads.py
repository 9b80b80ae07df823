"""A step gets the number of threads with which it is faster."""

from __future__ import annotations

import pytest
import torch

from accord.training import step as threads
from accord.training.step import Threads
from helpers import CPU


@pytest.fixture
def given():
    """Torch has three threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def took(chooser: Threads, monkeypatch: pytest.MonkeyPatch, steps: int, seconds: dict[int, float]) -> list[int]:
    """The threads of each step, where a step with so many takes so long."""
    now, used = [0.0], []
    monkeypatch.setattr(threads.time, "perf_counter", lambda: now[0])
    for _ in range(steps):
        with chooser.step():
            used.append(torch.get_num_threads())
            now[0] += seconds[used[-1]]
    return used


@pytest.mark.parametrize(("alone", "better"), [(0.9, 1), (1.1, 3)])
def test_what_is_faster_is_kept(alone, better, given, monkeypatch):
    used = took(Threads(CPU), monkeypatch, 100, {1: alone, given: 1.0})
    tried = threads.BLOCK * (1 + 2 * threads.TURNS)
    assert set(used[:tried]) == {1, given}
    assert set(used[tried:]) == {better}
    assert torch.get_num_threads() == given  # between steps


def test_the_first_steps_do_not_count(given, monkeypatch):
    chooser = Threads(CPU)
    took(chooser, monkeypatch, threads.BLOCK, {given: 100.0})  # as where something is compiled
    assert took(chooser, monkeypatch, 100, {1: 2.0, given: 1.0})[-1] == given


def test_nothing_is_tried_where_there_is_no_choice(given, monkeypatch):
    assert set(took(Threads(torch.device("cuda")), monkeypatch, 50, {given: 1.0})) == {given}
    torch.set_num_threads(1)
    assert set(took(Threads(CPU), monkeypatch, 50, {1: 1.0})) == {1}


def test_a_step_that_fails_leaves_the_threads_as_they_were(given):
    chooser = Threads(CPU)
    chooser.chosen = 1
    with pytest.raises(KeyboardInterrupt), chooser.step():
        raise KeyboardInterrupt
    assert torch.get_num_threads() == given
