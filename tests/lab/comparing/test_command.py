"""`accord compare` as a user runs it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from accord.cli.app import main


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = {(f"a{rng.integers(40)}", f"b{int(30 * rng.random() ** 2)}") for _ in range(900)}
    lines = "".join(f"{u};{i};{rng.integers(1, 6)}\n" for u, i in sorted(rows))
    (tmp_path / "other.csv").write_text("who;what;stars\n" + lines)
    words = "compare other.csv --user-col who --item-col what --models mf --methods normal,tce --seeds 2 --epochs 1"

    def run(more=""):
        monkeypatch.setattr(sys, "argv", ["accord", *words.split(), *more.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    code, out, err = run()
    assert code == 0, err
    assert all(name in out for name in ("mf + normal", "mf + tce", "popularity", "ease", "Holm"))
    assert err.endswith("report: runs/other-compare/report.html\n")
    page = (tmp_path / "runs/other-compare/report.html").read_text(encoding="utf-8")
    assert "<title>Comparison on other</title>" in page
    assert f"accord {words}" in page
    assert "Against mf + normal" in page
    before = (tmp_path / "runs/other-compare/results.jsonl").read_text()
    (tmp_path / "runs/other-compare/compare.md").unlink()
    code, again, _ = run("--render-only")
    assert code == 0
    assert again == out
    assert (tmp_path / "runs/other-compare/compare.md").exists()
    assert (tmp_path / "runs/other-compare/results.jsonl").read_text() == before
    for mistake, expected in (
        ("--set method.zz=1,2", "no model or method here has it"),
        ("--methods nrmal", "did you mean 'normal'"),
    ):
        code, _, err = run(mistake)
        assert code == 2
        assert expected in err
