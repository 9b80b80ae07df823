"""`accord judge` as a user runs it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from commands import run

WORDS = ("judge", "clicks.csv", "--judgements", "20", "-o", "judged.csv", "--judge")


def test_a_program_labels_a_log_and_the_labels_are_read(clicks, monkeypatch, capsys):
    Path("judge.py").write_text("import sys\nfor number, line in enumerate(sys.stdin):\n    print(number % 2)\n")
    command = f"{shlex.quote(sys.executable)} judge.py"
    code, _, err = run(monkeypatch, capsys, *WORDS, command)
    assert code == 0
    assert "20 rows: judged.csv" in err
    assert "judge: it judged the 20 most useful interactions without a label" in err
    assert "its errors are unknown" in err
    code, out, _ = run(monkeypatch, capsys, "data", "check", "clicks.csv", "--labels", "judged.csv")
    assert code == 0
    assert "labels judged.csv: 20 interactions have a label" in " ".join(out.replace("'", "").split())


def test_a_bad_judge_writes_nothing(clicks, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, *WORDS, "no-such-judge")
    assert code == 2
    assert "--judge no-such-judge cannot be started" in err
    assert not Path("judged.csv").exists()
