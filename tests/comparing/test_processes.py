"""Jobs in several processes: the results of one, what goes wrong there is told here, and nothing is left running."""

from __future__ import annotations

import os

import numpy as np
import pytest

from accord.auditing import crossfit
from accord.auditing.crossfit import cross_fit
from accord.auditing.interaction_log import open_log
from accord.comparing.executor import Here, Job
from accord.comparing.processes import Processes
from accord.errors import InputError
from helpers import CPU, small_data
from small_jobs import work


@pytest.fixture(scope="module")
def two():  # started once: that takes seconds
    with Processes(2) as workers:
        yield workers


def test_every_job_is_done_elsewhere(two):
    said, watched = [], []
    jobs = [Job(f"job {n}", n) for n in range(5)]
    found = list(two.each(work, 10, jobs, CPU, watched.append, said.append))
    assert sorted(one for _, (one, _) in (pair for pair in found if isinstance(pair[1], tuple))) == [10, 11, 12, 13, 14]
    where = {process for _, process in found if isinstance(process, int)}
    assert len(where) == 2
    assert os.getpid() not in where
    assert [line.partition(" · ")[0] for line in said if " of 5: " in line] == [
        f"{n + 1} of 5: job {n}" for n in range(5)
    ]
    assert said.count("job 3: 1 thread") == 1
    assert {bar.stage for bar in watched} >= {"1: job 0 stage", "2: job 1 stage"}
    assert all(bar.epoch == bar.epochs for bar in {bar.stage: bar for bar in watched}.values())  # none is left open


def test_the_bits_of_one_process(two, monkeypatch):
    log = open_log(small_data())
    monkeypatch.setattr(crossfit, "EPOCHS", 2)
    alone, shared = (cross_fit(log, seeds=2, folds=2, device=CPU, workers=workers) for workers in (Here(), two))
    assert np.array_equal(alone.p_real, shared.p_real, equal_nan=True)


def test_too_little_for_two(two):
    small, large = Job("small", 1), Job("large", 2, memory=2**50)
    for jobs, told in (([small], 0), ([small, large], 1)):
        said = []
        found = list(two.each(work, 1, jobs, CPU, lambda _: None, said.append))
        assert {process for _, process in found if isinstance(process, int)} == {os.getpid()}
        assert said.count("1 of 2 processes: the memory has no room for more such jobs at once") == told


def test_a_stack_is_cut_so_that_all_processes_have_room(two, monkeypatch):
    monkeypatch.setattr(Here, "room", lambda *_: 2**32)
    share = two.room(CPU)
    largest = [Job(f"job {n}", n, memory=share) for n in range(4)]
    found = list(two.each(work, 1, largest, CPU, lambda _: None, lambda _: None))
    assert 2**30 < share < 2**31
    assert len({process for _, process in found if isinstance(process, int)}) == 2


@pytest.mark.parametrize(("task", "kind", "said"), [("broken", RuntimeError, "broken"), ("gone", InputError, "memory")])
def test_what_goes_wrong_there_is_told_here(two, task, kind, said):
    with pytest.raises(kind, match=said) as caught:
        list(two.each(work, 1, [Job("first", 2), Job("second", task)], CPU, lambda _: None, lambda _: None))
    assert task != "broken" or "in work" in str(caught.value.__notes__)


def test_nothing_is_left_running():
    with Processes(2) as workers:
        workers._started(1)
        ((process, _),) = workers._there
        assert process.is_alive()
    assert not process.is_alive()
