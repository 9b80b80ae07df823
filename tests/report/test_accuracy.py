"""How good runs are, in sentences, tables and charts."""

from __future__ import annotations

import pytest

from accord.evaluation.significance import Comparison
from accord.report.accuracy import dots, metrics, summary, verdict
from accord.report.page import Section
from accord.report.runs import Interval, Runs


@pytest.mark.parametrize(
    ("difference", "low", "high", "level", "words"),
    [
        (0.01, 0.005, 0.015, "good", "is better than"),
        (-0.01, -0.015, -0.005, "warning", "is worse than"),
        (0.01, -0.005, 0.02, "info", "does not differ significantly from"),
        (0.003, 0.001, 0.005, "info", "is slightly better than"),
        (-0.003, -0.005, -0.001, "info", "is slightly worse than"),
    ],
)
def test_a_verdict_by_hand(difference, low, high, level, words):
    section = Section("Summary")
    found = Comparison(difference, low, high, p=0.5, p_holm=0.5, effect=0.1, better=0.1)
    verdict(section, "ndcg@20", ("a", "b"), (0.21, 0.2), found)
    (block,) = section.blocks
    assert block["level"] == level
    assert block["text"].startswith(f"a {words} b by ndcg@20: 0.2100 against 0.2000, a difference of ")
    assert "-" not in block["text"]  # minus signs, not hyphens


def test_the_best_comes_first_in_words():
    chart = dots("recall@5", {"a": Interval(0.1, 0.0, 0.2), "b": Interval(0.3, 0.2, 0.4)})
    assert chart.summary == "Best first: b 0.3000; a 0.1000."


def test_of_one_row_there_is_a_table_and_no_chart(trained, monkeypatch):
    monkeypatch.setattr("accord.report.runs.baselines", lambda *_: [])
    section = Section("Metrics")
    metrics(Runs([trained["mf-normal"]]), section)
    assert [block["kind"] for block in section.blocks] == ["table"]


def test_the_sections_of_runs(trained):
    runs = Runs(list(trained.values()))
    short, table = Section("Summary"), Section("Metrics")
    summary(runs, short)
    metrics(runs, table)
    facts = {fact.label: fact for block in short.blocks if block["kind"] == "facts" for fact in block["facts"]}
    best = max(runs.runs, key=lambda one: one.metrics["ndcg@20"].mean)
    assert facts["ndcg@20"].value == f"{best.metrics['ndcg@20'].mean:.4f}"
    assert facts["ndcg@20"].note == best.name
    assert facts["training"].note == "5 runs on cpu"
    (means,) = (block["table"] for block in table.blocks if block["kind"] == "table")
    assert [row[0] for row in means.rows] == ["mf + normal", "mf + deca-p", "ease", "popularity"]
    assert means.columns[1:5] == ("recall@10", "ndcg@10", "recall@20", "ndcg@20")
    assert [row[0] for row in means.rows if row[-1] is None] == ["mf + normal"]  # which the others are tested against
