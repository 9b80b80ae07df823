"""The commands that docs/labels.md gives for logs of which a part says by itself what is real."""

from __future__ import annotations

import json
import re
import shlex
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev

import pytest
from typer.testing import CliRunner

from accord.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "labels.md"
ROWS = re.findall(r"^\|.*\| `(\S+)` `(.+?)` \| `accord train (.+?)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
VALUES = {"rating": "-1 -1 5 8 10", "hours": "0.1 1 31.5", "event": "view view view cart buy", "thumb": "0 0 1 -1"}


@pytest.mark.parametrize(("header", "row", "command"), ROWS, ids=[command.split(".")[0] for *_, command in ROWS])
def test_a_log_of_that_shape_gets_labels_by_that_command(header, row, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, *options = shlex.split(command)
    user, item, _ = row.split(",")
    values = cycle(VALUES[header.split(",")[2]].split())
    rows = [row, *(f"{user}{u},{item}{i % 11},{next(values)}" for u in range(20) for i in range(u, u + 7))]
    Path(file).write_text("\n".join([header, *rows]) + "\n")
    Path("refused.csv").write_text(f"user,song,label\n{user}0,{item}10,0\n")
    done = CliRunner().invoke(app, ["data", "check", file, *options])
    assert done.exit_code == 0, done.output
    given = re.search(r"([\d,]+) of ([\d,]+) training interactions have a label", done.output)
    assert given, done.output
    assert 0 < int(given[1]) < int(given[2]), "a part is unknown"


def test_there_is_a_row_for_each_kind_of_log():
    assert len(ROWS) == len(VALUES)


def test_what_labels_are_worth_is_that_of_the_raw_results():
    raw = Path(__file__).parents[2] / "benchmarks" / "labels.jsonl"
    lines = [json.loads(line) for line in raw.read_text("utf-8").splitlines()]
    table = ["| NDCG@20 of `auto` | without | with |", "|---|---|---|"]
    for log in dict.fromkeys(line["log"] for line in lines):
        (without,) = (line["ndcg@20"] for line in lines if line["log"] == log and not line["share"])
        drawn = [line["ndcg@20"] for line in lines if line["log"] == log and line["share"] == 0.05]
        assert len(drawn) == (2 if log.startswith("MovieLens-1M") else 10)
        table.append(f"| {log} | {without:.4f} | {fmean(drawn):.4f} ± {stdev(drawn):.4f} |")
    assert "\n".join(table) in PAGE.read_text("utf-8")
