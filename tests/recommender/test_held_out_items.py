"""Items held out whole, and how well they are recommended then."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import csv

import accord
from accord.errors import InputError
from accord.recommender.held_out_items import evaluate_new_items
from commands import run as run_command
from logs import about, log_of_kinds

KNOWN, FRESH = about(*range(100)), about(200, 201, 202, 203)


def test_items_held_out_whole():
    run = accord.fit(accord.load(log_of_kinds(), items=pa.table(KNOWN)), "ease", options={"model.l2": 20})
    result = evaluate_new_items(run)
    assert result["items"] == 40
    recalls = result["recall@20"]
    assert recalls["this run"] > 0.9 > recalls["popularity by attributes"]
    assert set(result["others"]) == {"without new items", "with new items"}
    with pytest.raises(InputError, match="the run has no attributes of items; train with"):
        evaluate_new_items(accord.fit(accord.load(log_of_kinds()), "popularity"))
    few = accord.fit(accord.load(log_of_kinds(), items=pa.table(about(*range(30)))), "popularity")
    with pytest.raises(InputError, match="30 items have attributes and interactions, and 80 are needed"):
        evaluate_new_items(few)


def test_the_command_line(tmp_path, monkeypatch, capsys):
    csv.write_csv(log_of_kinds(), tmp_path / "log.csv")
    csv.write_csv(pa.table(KNOWN), tmp_path / "items.csv")
    csv.write_csv(pa.table({k: KNOWN[k] + FRESH[k] for k in KNOWN}), tmp_path / "more.csv")
    folder = tmp_path / "run"
    words = ["train", tmp_path / "log.csv", "--model", "ease", "--new-items", "--out", folder]
    code, _, err = run_command(monkeypatch, capsys, *words)
    assert (code, "--new-items needs --items" in err) == (2, True)
    code, out, err = run_command(monkeypatch, capsys, *words, "--items", tmp_path / "items.csv")
    assert code == 0
    assert "40 items held out entirely" in out
    assert "ndcg@20 of the other items: " in err
    result = json.loads((folder / "metrics.json").read_text())["new_items"]
    assert set(result["recall@20"]) == {"this run", "popularity by attributes", "content kNN"}
    assert "40 items held out entirely, for 120 users" in (folder / "report.html").read_text()
    again = run_command(monkeypatch, capsys, "evaluate", folder, "--new-items")[1]
    assert out.splitlines()[-4:] == again.splitlines()[-4:]
    csv.write_csv(pa.table(about(*range(30))), tmp_path / "few.csv")
    words[-1] = tmp_path / "of few"
    code, out, err = run_command(monkeypatch, capsys, *words, "--items", tmp_path / "few.csv")
    assert (code, "30 items have attributes" in err, "leave --new-items out" in err) == (2, True, True)
    assert (tmp_path / "of few" / "report.html").is_file()  # the run is whole all the same
    for command in (["recommend", "--user", "u001", "--allow", "i201"], ["similar", "i003", "--k", "99"]):
        code, out, _ = run_command(
            monkeypatch, capsys, command[0], folder, *command[1:], "--items", tmp_path / "more.csv"
        )
        assert code == 0
        assert "i201" in out
