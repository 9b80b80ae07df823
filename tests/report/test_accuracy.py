"""How good runs are, in sentences, tables and charts."""

from __future__ import annotations

import pytest

from accord.evaluation.significance import Comparison
from accord.report.accuracy import dots, figures, in_short, users, verdict
from accord.report.measure import Interval, Runs
from accord.report.page import Section


@pytest.mark.parametrize(
    ("difference", "low", "high", "level", "words"),
    [
        (0.01, 0.005, 0.015, "good", "is better than"),
        (-0.01, -0.015, -0.005, "warning", "is worse than"),
        (0.01, -0.005, 0.02, "info", "cannot be told apart from"),
    ],
)
def test_a_verdict_by_hand(difference, low, high, level, words):
    section = Section("In short")
    found = Comparison(difference, low, high, p=0.5, p_holm=0.5, effect=0.1, better=0.1)
    verdict(section, "ndcg@20", ("a", "b"), (0.21, 0.2), found)
    (block,) = section.blocks
    assert block["level"] == level
    assert block["text"].startswith(f"a {words} b by ndcg@20: 0.2100 against 0.2000, a difference of ")
    assert "-" not in block["text"]  # minus signs, not hyphens


def test_the_best_comes_first_in_words():
    chart = dots("recall@5", {"a": Interval(0.1, 0.0, 0.2), "b": Interval(0.3, 0.2, 0.4)})
    assert chart.summary == "From the best down: b 0.3000; a 0.1000."


def test_the_sections_of_runs(trained):
    runs = Runs(list(trained.values()))
    short, table, groups = Section("In short"), Section("Figures"), Section("For whom")
    in_short(runs, short)
    figures(runs, table)
    users(runs, groups)
    facts = {fact.label: fact for block in short.blocks if block["kind"] == "facts" for fact in block["facts"]}
    best = max(runs.runs, key=lambda one: one.figures["ndcg@20"].mean)
    assert facts["ndcg@20"].value == f"{best.figures['ndcg@20'].mean:.4f}"
    assert facts["ndcg@20"].note == best.name
    assert facts["training"].note == "5 runs on cpu"
    means, tests, every = (block["table"].table for block in table.blocks if block["kind"] == "table")
    assert [row[0] for row in means.rows] == ["mf + normal", "mf + deca-p", "ease", "popularity"]
    assert [row[0] for row in tests.rows] == ["mf + deca-p", "ease", "popularity"]
    assert [row[0] for row in every.rows] == list(runs.runs[0].evaluation.per_user)
    (chart,) = (one for block in groups.blocks if block["kind"] == "charts" for one, _ in block["charts"])
    assert sum(int(row[1]) for row in chart.data.rows) == len(runs.runs[0].evaluation.users)
