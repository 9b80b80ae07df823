"""`accord lab leaderboard` and `accord lab injected` as a user runs them: every mistake, and a kill at any moment."""

from __future__ import annotations

import json
import signal
import sys
import time

import numpy as np
import pytest

import helpers  # noqa: F401 -- one thread, as the killed process has: bits are equal then
from accord.cli.app import main
from started import Started


def command(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["accord", *words.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    return stop.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("lab leaderboard demo --seeds 0", "--seeds must be at least 1"),
        ("lab leaderboard demo --models gmff", "did you mean 'gmf'"),
        ("lab leaderboard demo --methods dca", "did you mean 'deca'"),
        ("lab leaderboard nowhere.csv", "nowhere.csv"),
        ("lab leaderboard demo --from nowhere", "no such folder"),
        ("lab leaderboard demo --cluster auto --processes 2", "give one of them"),
        ("lab leaderboard --render-only", "nothing was finished"),
        ("lab injected --render-only", "nothing was finished"),
        ("lab partners --render-only", "nothing was finished"),
        ("lab partners demo --partners eaze", "did you mean 'ease'"),
        ("lab injected demo --rates 0.1,x", "--rates '0.1,x'"),
        ("lab injected demo --rates 1.5", "--rates are shares"),
        ("lab injected demo --kinds unifrm", "did you mean 'uniform'"),
        ("lab injected demo --of softmax --kinds unifrm", "did you mean 'uniform'"),
        ("lab injected demo --of softmax --rates 1.5", "--rates are shares"),
        ("lab injected demo --of softmax --models mf", "--models and --methods are not for --of softmax"),
        ("lab injected --of softmax --render-only", "nothing was finished"),
    ],
)
def test_mistakes_end_in_one_sentence(monkeypatch, capsys, tmp_path, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(monkeypatch, capsys, words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def without_times(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_killed_at_any_moment_it_ends_with_the_same_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = (
        "lab leaderboard small.csv --models mf --methods normal,rce --seeds 2 --tune 3 --epochs 2 --device cpu --out "
    )
    rng = np.random.default_rng(1)
    pairs = sorted({(int(rng.integers(60)), int(40 * rng.random() ** 2)) for _ in range(1200)})
    rows = "".join(f"{u},{i},{rng.integers(1, 6)}\n" for u, i in pairs)
    (tmp_path / "small.csv").write_text("user,item,rating\n" + rows)
    written = [tmp_path / "cut" / f"{name}.jsonl" for name in ("tuning", "leaderboard")]
    for count in (3, 12):  # lines of results after which it is killed: 10 are of tuning, 6 of the runs
        process = Started("accord", *words.split(), "cut")
        while process.poll() is None:
            if sum(file.read_text().count("\n") for file in written if file.exists()) >= count:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        assert process.returncode == -signal.SIGKILL, process.communicate()[1]
        process.stderr.close()
    for folder in ("cut", "whole", "shared --processes 2"):
        code, _, err = command(monkeypatch, capsys, words + folder)
        assert code == 0, err
    whole = tmp_path / "whole"
    for other in (tmp_path / "cut", tmp_path / "shared"):
        for name in ("tuning.jsonl", "leaderboard.jsonl"):
            assert without_times(other / name) == without_times(whole / name)
        for name in ("leaderboard.json", "leaderboard.md"):
            assert (other / name).read_text() == (whole / name).read_text()
        assert {path.name for path in other.iterdir()} == {path.name for path in whole.iterdir()}
