"""`accord audit` as a user runs it: its output, every mistake, and an interruption."""

from __future__ import annotations

import json

import pytest

from accord.consensus import training
from audit_logs import clicks, limit_verdict
from commands import run


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A folder with a small log, and models that hardly train."""
    monkeypatch.chdir(tmp_path)
    clicks(tmp_path, 40, 30, 400, liked=0.4)
    limit_verdict(monkeypatch, epochs=1)
    return tmp_path


def test_audit_and_write_a_clean_log(quick, monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "audit", "clicks.csv", "--seeds", "1", "--device", "cpu")
    assert code == 0, err
    assert "probably noise" in out
    assert "2 rows repeat a (user, item) pair" in out
    assert "enoising" in out
    assert "report: runs/clicks-audit/report.html" in err
    summary = json.loads((quick / "runs" / "clicks-audit" / "summary.json").read_text())
    assert summary["command"] == "accord audit clicks.csv --seeds 1 --device cpu"

    words = ("audit", "clicks.csv", "--out", "runs/clicks-audit")
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "holds a finished audit" in err
    code, _, err = run(monkeypatch, capsys, *words, "--write-clean", "clean.csv")
    assert code == 0
    assert "holds a finished audit, which is used" in err
    header, *rows = (quick / "clean.csv").read_text().splitlines()
    assert f"clean log: clean.csv, {len(rows)} rows; {402 - len(rows)} rows left out" in err
    assert header == '"user","item","value","time","note"'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit", "nothing.csv"), "no file or folder 'nothing.csv'"),
        (("audit", "clicks.csv", "--user-col", "who"), "no column 'who'"),
        (("audit", "clicks.csv", "--drop-below", "0.2"), "give that too"),
        (("audit", "clicks.csv", "--write-clean", "x.xlsx"), "must end in"),
        (
            ("audit", "clicks.csv", "--write-clean", "x.csv", "--drop-below", "2"),
            "--drop-below 2.0: give",
        ),
        (("audit", "clicks.csv", "--seeds", "0"), "--seeds 0: give at least 1"),
        (("audit", "clicks.csv", "--clean", "rating>3"), "rating"),
        (("audit", "clicks.csv", "--out", "clicks.csv"), "is a file"),
        (("audit", "demo", "--clean", "value>=1"), "already split"),
    ],
)
def test_mistakes_are_one_sentence(quick, monkeypatch, capsys, words, said):
    code, out, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_log_that_cannot_be_judged_leaves_nothing_behind(quick, monkeypatch, capsys):
    rows = "".join(f"u{n},i{n % 17}\n" for n in range(200))
    (quick / "once.csv").write_text(f"user,item\n{rows}")
    code, _, err = run(monkeypatch, capsys, "audit", "once.csv")
    assert code == 2
    assert "no user has two interactions" in err
    assert not (quick / "runs" / "once-audit").exists()


def test_an_interrupted_audit_goes_on(quick, monkeypatch, capsys):
    words = ("audit", "clicks.csv", "--out", "a", "--device", "cpu", "--seeds", "1")
    trained, original = [], training.train_stack

    def interrupted(data, run, *rest, **options):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(run.config.model)
        return original(data, run, *rest, **options)

    monkeypatch.setattr(training, "train_stack", interrupted)
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 130
    assert "--resume" in err
    assert not (quick / "a" / "summary.json").exists()

    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "interrupted audit; continue it with --resume" in err

    trained.clear()
    code, _, err = run(monkeypatch, capsys, *words, "--resume")
    assert code == 0, err
    assert len(trained) == 2  # of five, three were finished
    assert not (quick / "a" / "unfinished").exists()

    before, written = (quick / "a" / "summary.json").read_bytes(), (quick / "a" / "summary.json").stat().st_mtime_ns
    trained.clear()
    code, _, err = run(monkeypatch, capsys, *words, "--overwrite")
    assert code == 130  # all anew, until it is interrupted again
    assert (quick / "a" / "summary.json").read_bytes() == before  # the old one is whole until the new one is
    trained.clear()
    (quick / "harm.py").write_text("import pathlib\npathlib.Path('harmed').mkdir()\n")
    finished = quick / "a" / "unfinished" / "verdict.jsonl"
    line = json.loads(finished.read_text().splitlines()[0]) | {"model": "harm:Harm"}
    finished.write_text(json.dumps(line) + "\n" + finished.read_text())
    code, _, err = run(monkeypatch, capsys, *words, "--resume")
    assert code == 0, err
    assert not (quick / "harmed").exists(), "what a file names is not imported"
    assert len(trained) == 2
    assert (quick / "a" / "summary.json").stat().st_mtime_ns > written
    assert not (quick / "a" / "unfinished").exists()
