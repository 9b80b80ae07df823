"""Faults around a command: a second process, a full disk, a clock that goes backwards, a folder that is read-only."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

import faults
import intact
import pytest

import accord
from accord.cli.app import main
from accord.errors import InputError
from accord.io.files import only_writer, replacing
from small_runs import train


def hold(folder, ready, end):
    with only_writer(folder):
        ready.set()
        end.wait(60)


def test_a_folder_has_one_writer(tmp_path):
    folder, ready, end = tmp_path / "run", multiprocessing.Event(), multiprocessing.Event()
    other = multiprocessing.get_context("fork").Process(target=hold, args=(folder, ready, end))
    other.start()
    assert ready.wait(60)
    with pytest.raises(InputError, match=f"{folder} is being written by another process; wait for it"):
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


def test_a_clock_that_goes_backwards_changes_nothing(whole, tmp_path, monkeypatch):
    hours = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 1.7e9 - 3600.0 * next(hours))
    train(tmp_path / "run")
    assert intact.run_is_right(whole / "3", tmp_path / "run")


@pytest.mark.skipif(os.getuid() != 0 or not sys.platform.startswith("linux"), reason="only root can mount a tmpfs")
def test_a_full_disk_is_said_and_nothing_is_lost(whole, tmp_path):
    try:
        with faults.full_disk(tmp_path / "disk", 1) as disk:
            train(disk / "run")
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 8_192))
            with pytest.raises(OSError, match="No space left"):
                accord.Recommender.load(whole / "5").save(disk / "run", overwrite=True)
            assert intact.run_is_right(whole / "3", disk / "run"), "the finished run is still there"
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
