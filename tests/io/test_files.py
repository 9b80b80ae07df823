"""Files are whole or not there, and what is wrong with one that is read is said in a sentence."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.errors import InputError
from accord.io import files
from accord.io.files import (
    make_folder,
    only_writer,
    own_file,
    read_batches,
    read_json,
    read_table,
    replacing,
    staged,
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
    assert path.read_text() == "whole"
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


def test_the_name_of_the_file_is_in_the_error_of_a_full_disk(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match=r"deep/file\.txt") as found, replacing(tmp_path / "deep" / "file.txt"):
        raise full
    assert found.value.filename == str(tmp_path / "deep" / "file.txt")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError) as found, staged(tmp_path, "last") as place, replacing(place / "weights.bin"):  # noqa: PT011
        raise full
    assert found.value.filename == str(tmp_path / "weights.bin")


@pytest.mark.parametrize("name", ["taken", "taken/run"])
def test_a_file_that_is_in_the_way_of_a_folder_is_named(tmp_path, name):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match=rf"taken is a file, and so \S+{name} cannot be a folder; give another place"):
        make_folder(tmp_path / name)


def test_one_process_writes_to_a_folder_and_leftovers_go(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".left.part").write_text("of a process that was killed")
    code = (
        f"import pathlib\nfrom accord.io.files import only_writer\nwith only_writer(pathlib.Path({str(folder)!r})): 1"
    )
    with only_writer(folder):
        assert names(folder) == []
        (folder / "kept").touch()
        other = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
        assert f"{folder} is being written by another process" in other.stderr
    assert names(folder) == ["kept"]
    with only_writer(tmp_path / "empty"), only_writer(None):
        assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "empty").exists()  # nothing was written, so nothing is left behind


def test_json_there_and_back(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1, None]})
    assert read_json(path) == {"ü": [1, None]}
    assert "ü" in path.read_text()
    for damaged in ("{", "[" * 100_000):
        path.write_text(damaged)
        with pytest.raises(InputError, match=r"a\.json is damaged"):
            read_json(path)
    with pytest.raises(InputError, match=r"b\.json is missing"):
        read_json(tmp_path / "b.json")


def test_a_file_that_leads_out_of_its_folder_is_not_read(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "run" / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of its folder"):
        own_file(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "inside").write_text("{}")
    (tmp_path / "run" / "metrics.json").symlink_to(tmp_path / "run" / "inside")
    assert read_json(tmp_path / "run" / "metrics.json") == {}


def test_parquet_whole_and_in_parts(tmp_path, monkeypatch):
    table = pa.table({"user": range(25), "item": ["a"] * 25})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").equals(table)
    monkeypatch.setattr(files, "BATCH_ROWS", 10)
    sizes = [batch.num_rows for batch in read_batches(tmp_path / "a.parquet", {"user", "item"})]
    assert sizes == [0, 10, 10, 5]
    with pytest.raises(InputError, match=r"a\.parquet is damaged \(it has no column 'score'\)"):
        list(read_batches(tmp_path / "a.parquet", {"user", "score"}))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match=r"a\.parquet is damaged"):
        read_table(tmp_path / "a.parquet")


def test_more_rows_than_so_few_bytes_can_mean_are_not_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"user": pa.array([1] * 10_000)}), tmp_path / "bomb.parquet")
    monkeypatch.setattr(files, "MANY_ROWS", 1000)
    monkeypatch.setattr(files, "MOST_ROWS_A_BYTE", 1)
    with pytest.raises(InputError, match=r"bomb\.parquet claims 10,000 rows in \d+ bytes"):
        read_table(tmp_path / "bomb.parquet")
