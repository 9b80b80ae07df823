"""Killed at any moment: what is on the disk is whole or not there, and the next life goes on from it.

The campaigns of stress/crash.py and stress/faults.py, made small: here every change to the disk is a moment to die.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import crash
import faults
import pytest

import accord
from accord.cli.app import main
from accord.errors import InputError
from accord.experiments.results import Results, run_key
from accord.io.files import only_writer, replacing
from helpers import small_data

OPTIONS = {"train.checkpoint_seconds": 0, "train.batch_size": 128, "model.dim": 4}


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


def train(folder, seed=3, resume=False, method="normal"):
    accord.fit(
        small_data(), "gmf", method, seeds=[seed, seed + 1], epochs=1, device="cpu", options=OPTIONS, out=folder,
        resume=resume,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Undisturbed runs of two seeds."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder / "deca-p", method="deca-p")
    for seed in (3, 5):
        train(folder / str(seed), seed)
    return folder


def lives(make, check, log, most=80):
    """Die before the first change of the disk, before the second, …: until there is none left. How often."""
    for number in range(most):
        code = crash.life(dying_before(number, make(number)), None, log)
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
        ended = crash.run_is_right(whole / "deca-p", folder)
        if not ended and number % 3 == 0:  # every third is brought to its end
            assert crash.life(lambda: train(folder, resume=True, method="deca-p"), None, log) == 0, log.read_text()
            assert crash.run_is_right(whole / "deca-p", folder)
            assert not list(folder.glob(".*")), "the temporary files of killed lives are gone"

    deaths = lives(lambda number: lambda: train(tmp_path / str(number), method="deca-p"), check, log)
    assert deaths > 20


def test_a_run_that_is_replaced_is_never_a_mixture(whole, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "log"
    train(folder)
    new, seen = accord.Recommender.load(whole / "5"), []

    def check(_):
        try:
            loaded = accord.Recommender.load(folder)
        except InputError:
            seen.append(None)
            return
        seen.append(loaded.run.config.seeds[0])
        assert crash.run_is_right(whole / str(seen[-1]), folder)
        train(folder)  # the old one again, to be replaced by the next life

    lives(lambda _: lambda: new.save(folder), check, log)
    assert seen[0] == 3, "before the first change"
    assert seen[-1] == 5
    assert None in seen


def test_a_folder_that_is_neither_run_is_noticed(whole, tmp_path):
    """The check itself: the weights of one run beside the metrics of another."""
    folder = tmp_path / "mixed"
    train(folder)
    (folder / "model.safetensors").write_bytes((whole / "5" / "model.safetensors").read_bytes())
    with pytest.raises(AssertionError, match="its weights are others"):
        crash.run_is_right(whole / "3", folder)


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


def test_a_download_that_is_killed_goes_on(tmp_path, monkeypatch):
    tally = crash.download(tmp_path, random.Random(2), 3)
    assert tally.kills >= 3
    assert not tally.wrong
    assert (tmp_path / "download" / "data.bin").read_bytes() == crash.CONTENT


def test_a_campaign_complains_where_something_is_wrong(tmp_path):
    def wrong():
        raise AssertionError("the weights are others")

    victim = crash.Victim(
        crash.Tally("train"), tmp_path / "run", lambda _: lambda: None, wrong, lambda: False, 0.01, tmp_path / "log"
    )
    victim.torment(random.Random(1), 1)
    assert victim.tally.wrong
    victim = crash.Victim(
        crash.Tally("x"), tmp_path / "run", lambda _: lambda: 1 / 0, lambda: True, lambda: False, 5, tmp_path / "log"
    )
    victim.torment(random.Random(1), 1)
    assert "ZeroDivisionError" in victim.tally.wrong[0]


# --- two processes on one folder


def hold(folder, ready, end):
    with only_writer(folder):
        ready.set()
        end.wait(60)


def test_a_folder_has_one_writer(tmp_path):
    folder, ready, end = tmp_path / "run", multiprocessing.Event(), multiprocessing.Event()
    other = multiprocessing.get_context("fork").Process(target=hold, args=(folder, ready, end))
    other.start()
    assert ready.wait(60)
    with pytest.raises(InputError, match=f"{folder} is being written by another process; wait for it, or"):
        train(folder)
    other.kill()  # the lock ends with the process
    other.join()
    train(folder)
    assert accord.Recommender.load(folder).num_runs == 2


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / ".model.safetensors.abc.part").write_text("half")
    (tmp_path / ".mine").write_text("not ours")
    with only_writer(tmp_path), replacing(tmp_path / "new") as path:
        path.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine", "new"]


def test_a_folder_that_was_not_written_to_is_not_left_behind(tmp_path):
    with only_writer(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


# --- other faults, in this process where that is enough


def test_a_clock_that_goes_backwards_changes_nothing(whole, tmp_path, monkeypatch):
    hours = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 1.7e9 - 3600.0 * next(hours))
    train(tmp_path / "run")
    assert crash.run_is_right(whole / "3", tmp_path / "run")


@pytest.mark.skipif(os.getuid() != 0 or not sys.platform.startswith("linux"), reason="only root can mount a tmpfs")
def test_a_full_disk_is_said_and_nothing_is_lost(whole, tmp_path):
    try:
        with faults.full_disk(tmp_path / "disk", 1) as disk:
            train(disk / "run")
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 8_192))
            with pytest.raises(OSError, match="No space left"):
                accord.Recommender.load(whole / "5").save(disk / "run")
            assert crash.run_is_right(whole / "3", disk / "run"), "the finished run is still there"
            assert not list((disk / "run").glob(".*"))
    except faults.Skipped as reason:
        pytest.skip(str(reason))


def test_a_read_only_folder_is_one_sentence(tmp_path, monkeypatch, capsys):
    """As the command says it; root may write anywhere, so the system is asked to refuse."""

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "clicks.csv").write_text("user,item\n" + "".join(f"{n % 20},{n % 7 + n // 20}\n" for n in range(140)))
    words = faults.train(tmp_path / "clicks.csv", tmp_path / "closed" / "run")
    monkeypatch.setattr(sys, "argv", ["accord", *map(str, words)])
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"accord: {tmp_path / 'closed' / 'run'}: permission denied; give a place that you can write to."
    )
    assert not (tmp_path / "closed").exists()
