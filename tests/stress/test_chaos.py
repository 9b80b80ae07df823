"""Everything at once for some seconds, as the campaign of an hour does it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys

import chaos
import intact
import pytest

WAYS = ("with a bit flipped", "cut short", "with a block of zeros", "replaced by random bytes")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "seen.parquet", "log.jsonl"])
def test_a_broken_file_is_refused_however_it_broke(name, whole, tmp_path):
    found = set()
    for seed in range(12):
        folder = tmp_path / str(seed)
        shutil.copytree(whole / "3", folder)
        before = (folder / name).read_bytes()
        found.add(chaos.broken(folder / name, random.Random(seed)))
        assert (folder / name).read_bytes() != before
        assert not intact.run_is_right(whole / "3", folder)
    assert found == set(WAYS)


def test_what_is_kept_is_counted(tmp_path):
    assert chaos.kept(tmp_path) == 0
    (tmp_path / "results.jsonl").write_text("{}\n{}\n")
    (tmp_path / "checkpoint-1.safetensors").touch()
    assert chaos.kept(tmp_path) == 3


@pytest.mark.heavy
def test_seconds_of_everything(tmp_path):
    """As a command: the campaign forks, which a process with threads must not."""
    words = ["--minutes", "0.05", "--only", "train", "serve", "corrupt", "--models", "consensus", "--seed", "5"]
    command = [sys.executable, chaos.__file__, *words, "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "chaos.json").read_text())
    judged, commands, others = found["tables"]
    assert judged["rows"] == [[0, 0]]
    assert [row[0] for row in commands["rows"]] == ["consensus"]
    assert sum(row[2] for row in others["rows"] if row[0] == "server") > 0
    assert found["made"]["seed"] == 5
