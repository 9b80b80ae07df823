"""Files are whole or not there, and what is wrong with one that is read is said in a sentence."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from accord.errors import InputError
from accord.io import files
from accord.io.files import (
    file_inside,
    make_folder,
    only_writer,
    read_json,
    replacing,
    staged,
    sync,
    write_json,
)
from lossy_disk import recorded


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_place_when_all_is_written(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with replacing(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.match("deep/.file.txt.*.part"), "by which it is known and removed if we are killed now"
    assert path.read_text() == "whole"
    assert path.stat().st_mode & 0o777 == 0o644, "others may read it"
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert path.read_text() == "whole"
    assert names(path.parent) == ["file.txt"]


def test_files_take_their_places_together_and_the_last_one_last(tmp_path, monkeypatch):
    (tmp_path / "metrics.json").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    moved = []
    replace = type(tmp_path).replace

    def watched(path, target):
        assert not (tmp_path / "metrics.json").exists()  # until all others are there, the folder does not count
        moved.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", watched)
    with staged(tmp_path, "metrics.json") as place:
        assert place.match(f"{tmp_path}/.*.part"), "by which it is known and removed if we are killed now"
        for name in ("metrics.json", "z.bin", "a.bin"):
            (place / name).write_text("new")
    assert moved == ["a.bin", "z.bin", "metrics.json"]
    assert names(tmp_path) == ["a.bin", "metrics.json", "mine.txt", "z.bin"]


# --- a power failure


def test_a_power_failure_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    path.write_text("old")
    with recorded(tmp_path, monkeypatch) as recording, replacing(path) as temporary:
        temporary.write_text("new")
    outcomes = list(recording.left_behind())
    assert {left["results.jsonl"] for _, left in outcomes} == {b"old", b"new"}
    assert all(left["results.jsonl"] == b"new" for step, left in outcomes if step == len(recording.steps))


def test_a_power_failure_leaves_one_run_or_none(tmp_path, monkeypatch):
    """Never a file of one beside a file of another, unless the last one is missing, by which a folder is incomplete."""
    names = ("config.json", "weights.bin", "metrics.json")
    for name in names:
        (tmp_path / name).write_text(f"old {name}")
    with recorded(tmp_path, monkeypatch) as recording, staged(tmp_path, "metrics.json") as place:
        for name in names:
            with replacing(place / name) as temporary:
                temporary.write_text(f"new {name}")
    outcomes = list(recording.left_behind())
    for _, left in outcomes:
        if "metrics.json" in left:
            assert left in ({name: f"{age} {name}".encode() for name in names} for age in ("old", "new"))
    assert any("metrics.json" not in left for _, left in outcomes)
    assert all(left["metrics.json"] == b"new metrics.json" for step, left in outcomes if step == len(recording.steps))


def test_folders_are_not_synced_where_they_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    opened = []
    windows = SimpleNamespace(name="nt", open=lambda *_: opened.append(1), fsync=len, close=len, O_RDONLY=0)
    monkeypatch.setattr(files, "os", windows)
    sync(tmp_path)
    assert not opened
    with pytest.raises(TypeError):  # by what stands for a handle here
        sync(tmp_path / "file")
    assert opened


def full(*place):
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *place)


def named(context, error):
    """The file that an error names which was raised in a block."""
    with pytest.raises(OSError) as found, context:  # noqa: PT011
        raise error
    return found.value.filename


def test_the_name_of_the_file_is_in_the_error_of_a_full_disk(tmp_path):
    path, elsewhere = tmp_path / "deep" / "file.txt", str(tmp_path / "elsewhere")
    assert named(replacing(path), full()) == str(path)
    assert named(replacing(path), full(elsewhere)) == elsewhere
    with pytest.raises(OSError) as found, replacing(path) as temporary:  # noqa: PT011
        raise full(str(temporary))
    assert found.value.filename == str(path)
    assert named(staged(tmp_path, "last"), full()) == str(tmp_path)
    assert named(staged(tmp_path, "last"), full(elsewhere)) == elsewhere
    with pytest.raises(OSError) as found, staged(tmp_path, "last") as place, replacing(place / "weights.bin"):  # noqa: PT011
        raise full()
    assert found.value.filename == str(tmp_path / "weights.bin")
    with pytest.raises(FileNotFoundError) as found, staged(tmp_path, "last"):
        pass
    assert found.value.filename == str(tmp_path / "last")
    with pytest.raises(FileNotFoundError) as found, staged(tmp_path, "last") as place:
        place.rmdir()  # as a cleaner of old files may
    assert found.value.filename == str(place)


def test_a_folder_is_made_with_those_that_it_lies_in(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "runs" / "today" / "run")
    assert (tmp_path / "runs" / "today" / "run").is_dir()


@pytest.mark.parametrize("name", ["taken", "taken/run"])
def test_a_file_that_is_in_the_way_of_a_folder_is_named(tmp_path, name):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match=rf"taken is a file, so \S+{name} cannot be a folder; give another place"):
        make_folder(tmp_path / name)


def test_one_process_writes_to_a_folder_and_leftovers_go(tmp_path):
    folder = tmp_path / "runs" / "run"
    (folder / ".half.part").mkdir(parents=True)
    (folder / ".half.part" / "file").touch()
    (folder / ".left.part").write_text("of a process that was killed")
    (folder / "mine.part").touch()
    code = (
        f"import pathlib\nfrom accord.io.files import only_writer\nwith only_writer(pathlib.Path({str(folder)!r})): 1"
    )
    with only_writer(folder):
        assert names(folder) == ["mine.part"]
        (folder / "kept").touch()
        other = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
        said = f"{folder} is being written by another process; wait for it, or give another out=."
        assert other.stderr.endswith(f"InputError: {said}\n")
    with only_writer(folder):
        assert names(folder) == ["kept", "mine.part"]
    with only_writer(tmp_path / "empty"), only_writer(None):
        assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "empty").exists()  # nothing was written, so nothing is left behind


def test_a_folder_is_written_to_where_there_are_no_locks(tmp_path, monkeypatch):
    def refuses(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / "mine").touch()
    (tmp_path / ".left.part").touch()
    with monkeypatch.context() as patch:
        patch.setattr(files.fcntl, "flock", refuses)
        with only_writer(tmp_path):
            assert names(tmp_path) == ["mine"]
    (tmp_path / ".left.part").touch()
    monkeypatch.setattr(files, "fcntl", None)  # as on Windows
    with only_writer(tmp_path):
        assert names(tmp_path) == [".left.part", "mine"], "it may be another process's"


def test_json_there_and_back(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1, None]})
    assert read_json(path) == {"ü": [1, None]}
    assert path.read_bytes() == '{\n "ü": [\n  1,\n  null\n ]\n}\n'.encode(), "UTF-8 on every machine"
    path.write_text(r'{"a": "\u00fc\ud83d\ude00"}')
    assert read_json(path) == {"a": "ü😀"}
    for damaged in (b"{", b"[" * 100_000, b'"\xff"', rb'"\ud800"'):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"^\S+a\.json is damaged \(.+\); train again\.$"):
            read_json(path)
    missing = r"^\S+b\.json is missing, so its folder is incomplete; copy or make the whole folder again\.$"
    with pytest.raises(InputError, match=missing):
        read_json(tmp_path / "b.json")


def test_a_file_that_leads_out_of_its_folder_is_not_read(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "run" / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(
        InputError, match=r"config\.json is a link that leads out of its folder; put the file itself there\.$"
    ):
        file_inside(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "inside").write_text("{}")
    (tmp_path / "run" / "metrics.json").symlink_to(tmp_path / "run" / "inside")
    assert read_json(tmp_path / "run" / "metrics.json") == {}
