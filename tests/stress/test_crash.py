"""Killed at any moment: what is on the disk is whole or not there, and the next life goes on from it.

The campaign of stress/crash.py, made small: here every change to the disk is a moment to die.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import crash
import intact
import killing
import pytest

import accord
from accord.comparing.results import Results, run_key
from accord.errors import InputError
from small_runs import train


def dying_before(number, work):
    """The work of a process that kills itself just before so many changes of the disk have been made."""

    def run():
        left = [number]
        for name in ("replace", "unlink"):
            setattr(os, name, functools.partial(counted, getattr(os, name), left))
        work()

    return run


def counted(change, left, *arguments, **options):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return change(*arguments, **options)


def lives(make, check, log, most=80):
    """Die before the first change of the disk, before the second, …: until there is none left. How often."""
    for number in range(most):
        code = killing.life(dying_before(number, make(number)), None, log)
        check(number)
        if code == 0:
            return number
        assert code == -signal.SIGKILL, log.read_text()
    raise AssertionError("it never came to its end")


def test_training_killed_before_every_change_of_the_disk(whole, tmp_path):
    """Each time the folder does not load, and the next life ends at the very same weights."""
    log = tmp_path / "log"

    def check(number):
        folder = tmp_path / str(number)
        ended = intact.run_is_right(whole / "deca-p", folder)
        if not ended and number % 6 == 0:  # every sixth is brought to its end
            assert killing.life(lambda: train(folder, resume=True, method="deca-p"), None, log) == 0, log.read_text()
            assert intact.run_is_right(whole / "deca-p", folder)
            assert not list(folder.glob(".*")), "the temporary files of killed lives are gone"

    deaths = lives(lambda number: lambda: train(tmp_path / str(number), method="deca-p"), check, log)
    assert deaths > 20


def test_a_run_that_is_replaced_is_never_a_mixture(whole, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "log"
    train(tmp_path / "old")
    shutil.copytree(tmp_path / "old", folder)
    new, seen = accord.Recommender.load(whole / "5"), []

    def check(_):
        try:
            loaded = accord.Recommender.load(folder)
        except InputError:
            seen.append(None)
            return
        seen.append(loaded.run.config.seeds[0])
        assert intact.run_is_right(whole / str(seen[-1]), folder)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "old", folder)  # to be replaced by the next life

    lives(lambda _: lambda: new.save(folder, overwrite=True), check, log)
    assert seen[0] == 3, "before the first change"
    assert seen[-1] == 5
    assert None in seen


def test_results_killed_before_every_change_of_the_disk(tmp_path):
    lines = [{**dict.fromkeys(("dataset", "data", "model", "method", "protocol", "settings"), "x"), "seed": seed}
             for seed in range(6)]  # fmt: skip
    log = tmp_path / "log"

    def work(folder):
        results = Results(folder)
        for start in range(0, 6, 2):
            known = results.by_key()
            new = [line for line in lines[start : start + 2] if run_key(line) not in known]
            if new:
                results.add(new, {"recall@20": [[float(line["seed"])] * 3 for line in new]})
        results.merge_per_user()

    def check(number):
        folder = tmp_path / str(number)
        results = Results(folder)
        found = results.read()
        assert found == lines[: len(found)]
        assert len(found) % 2 == 0, "a stack is there as a whole"
        work(folder)
        assert results.read() == lines
        assert sorted(v.tolist() for v in results.per_user("recall@20").values()) == [[float(n)] * 3 for n in range(6)]

    assert lives(lambda number: lambda: work(tmp_path / str(number)), check, log) > 8


@pytest.mark.heavy
def test_two_hundred_kills_of_training(tmp_path):
    """As a command: the campaign forks, which a process with threads must not."""
    command = [sys.executable, crash.__file__, "--only", "train", "--results", str(tmp_path)]
    subprocess.run(command, check=True)
    kills = json.loads((tmp_path / "crash.json").read_text())["tables"][0]["rows"][0]
    assert kills[1] >= 200
    assert kills[-1] == 0
