"""Jobs in this process and in several: the same results, errors shown here, and nothing left running."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accord.comparing.compare import Request, cells_of, compare
from accord.comparing.executor import CPU_BYTES, Here, Job, Processes
from accord.comparing.results import Results
from accord.errors import InputError
from helpers import CPU, small_data
from small_jobs import work


def test_room_and_order_of_this_process():
    assert 0 < Here().room(CPU) <= 4 * 2**30
    said = []
    found = list(Here().each(lambda *_: iter("ab"), None, [Job("x", 1), Job("y", 2)], CPU, None, said.append))
    assert found == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert said == ["1 of 2: x", "2 of 2: y"]


def test_devices_are_found_by_name():
    assert Here().device("cpu") == CPU
    assert Here().room(CPU) <= CPU_BYTES
    with pytest.raises(Exception, match="unknown device"):
        Here().device("tpu")


@pytest.fixture
def two():
    return Processes(2)


def test_every_job_is_done_elsewhere(two, monkeypatch):
    """Jobs as large as a stack may be too: it is cut so that all processes have room."""
    monkeypatch.setattr(Here, "room", lambda *_: 2**32)
    share = two.room(CPU)
    assert 2**30 < share < 2**31
    said, watched = [], []
    jobs = [Job(f"job {n}", n, memory=share) for n in range(5)]
    found = list(two.each(work, 10, jobs, CPU, watched.append, said.append))
    assert sorted(one for _, (one, _) in (pair for pair in found if isinstance(pair[1], tuple))) == [10, 11, 12, 13, 14]
    where = {process for _, process in found if isinstance(process, int)}
    assert 1 <= len(where) <= 2
    assert os.getpid() not in where
    ended = [line for line in said if " of 5 done: " in line]
    assert [line.partition(" done")[0] for line in ended] == [f"{n} of 5" for n in range(1, 6)]
    assert said.count("job 3: 1 thread") == 1
    assert [(bar.epoch, bar.epochs, bar.unit) for bar in watched] == [(n, 5, "jobs") for n in range(1, 6)]


def test_the_bits_of_one_process(two, tmp_path):
    cells, figures = cells_of(["gmf"], ["normal", "deca-p"], {}), []
    for name, workers in (("alone", Here()), ("shared", two)):
        request = Request(small_data(), seeds=2, epochs=2, device="cpu", workers=workers)
        compare(request, cells, Results(tmp_path / name, "table"))
        lines = [json.loads(line) for path in (tmp_path / name).glob("*.jsonl") for line in path.open()]
        figures.append(
            {
                (line["model"], line["method"], line["seed"], json.dumps(line["metrics"], sort_keys=True))
                for line in lines
            }
        )
    assert len(figures[0]) > 4
    assert figures[0] == figures[1]


def test_too_little_for_two(two):
    small, large = Job("small", 1), Job("large", 2, memory=2**50)
    for jobs, told in (([small], 0), ([small, large], 1)):
        said = []
        found = list(two.each(work, 1, jobs, CPU, lambda _: None, said.append))
        assert {process for _, process in found if isinstance(process, int)} == {os.getpid()}
        assert said.count("1 of 2 processes: memory does not allow more at once") == told


@pytest.mark.parametrize(("task", "kind", "said"), [("broken", RuntimeError, "broken"), ("gone", InputError, "memory")])
def test_what_goes_wrong_there_is_told_here(two, task, kind, said):
    with pytest.raises(kind, match=said) as caught:
        list(two.each(work, 1, [Job("first", 2), Job("second", task)], CPU, lambda _: None, lambda _: None))
    assert task != "broken" or "in work" in str(caught.value.__cause__)


def test_nothing_is_left_running():
    jobs = Processes(2).each(work, 1, [Job("first", 2), Job("second", "slow"), Job("third", "slow")], CPU, None, print)
    next(jobs)
    processes = multiprocessing.active_children()
    assert len(processes) == 2
    jobs.close()  # as Ctrl-C does
    assert not any(process.is_alive() for process in processes)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import multiprocessing, os, signal, torch
from accord.comparing.executor import Job, Processes; from small_jobs import work
if __name__ == "__main__":
    jobs = Processes(2).each(work, 1, [Job("a", 1), Job("b", "slow")], torch.device("cpu"), None, lambda _: None)
    print(next(jobs) and [process.pid for process in multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = json.loads(done.stdout)
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
