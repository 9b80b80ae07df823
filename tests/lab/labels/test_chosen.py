"""Labels that an audit asks for against labels at random; the committed page is what its raw lines say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pytest

import accord
from accord.comparing.results import keep_lines
from accord.data.interactions import Interactions
from accord.errors import InputError
from accord_lab.labels import chosen
from helpers import small_data

PAGE = Path(__file__).parents[3] / "docs" / "reproduction" / "labels"


def test_one_line_per_draw_and_none_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(chosen, "MOST", 100)
    made = accord.simulate(users=150, items=80, interactions=2_500, seed=2).dataset
    label = pa.array(made.train.column("value").astype(float))
    data = replace(made, train=Interactions.of(made.train.users, made.train.items, label=label))
    (line,) = lines = chosen.run(data, 1, tmp_path, lambda _: None)
    assert {*line} == {"dataset", "draw", "start", "used", "chosen 50", "chosen 100", "random 50", "random 100"}
    assert all(0.4 < line[key] < 1 for key in line if key.split()[0] in ("start", "chosen", "random"))
    assert chosen.run(data, 1, tmp_path, pytest.fail) == lines


def test_differences_are_paired_by_draw():
    line = {"dataset": "d", "start": 0.6, "chosen 250": 0.7, "random 250": 0.69, "random 50": 0.6}
    (table,) = chosen.tables([line | {"chosen 50": 0.61}, line | {"chosen 50": 0.63}])
    rows = table.rows
    assert rows[0][:2] == ("d", "250")
    assert chosen.tables([line | {"chosen 50": 0.6}, line | {"chosen 50": 0.6}])[0].rows[1][4:] == ("+0.0000", "1.000")
    assert rows[1][1:5] == ("250 + 50", "0.6200 ± 0.0141", "0.6000 ± 0.0000", "+0.0200")


def test_data_without_labels_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no labels to draw from"):
        chosen.run(small_data(), 1, tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    lines = [json.loads(line) for line in (PAGE / "chosen.jsonl").read_text().splitlines()]
    keep_lines(tmp_path / "chosen.jsonl", lines)
    chosen.render(tmp_path)
    assert (tmp_path / "chosen.md").read_text() == (PAGE / "chosen.md").read_text()


def test_the_docs_say_what_chosen_labels_are_worth():
    lines = [json.loads(line) for line in (PAGE / "chosen.jsonl").read_text().splitlines()]
    (made,) = chosen.tables(lines)
    assert [made.rows[row][:2] for row, _ in made.marked] == [("demo", "250 + 250")], "significant"
    rows = {row[:2]: row for row in made.rows}
    gained = rows["demo", "250 + 250"][4]
    page = " ".join((PAGE.parents[1] / "audit.md").read_text().split())
    assert "250 such labels teach more than as many at random on the built-in data" in page
    assert f"(AUC {gained}), and as much on the other two; 50 teach as much on all three" in page
    for name in ("demo", "ml-100k", "modcloth"):  # and how many there are counts
        begun = fmean(line["start"] for line in lines if line["dataset"] == name)
        assert float(rows[name, "250 + 250"][3].split()[0]) > begun
