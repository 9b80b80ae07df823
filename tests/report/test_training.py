"""How runs were trained and how real they consider interactions, as sections of a report."""

from __future__ import annotations

import numpy as np

import accord
from accord.report.measure import Runs, curves
from accord.report.page import Section
from accord.report.training import learning, probabilities


def charts_of(section):
    return {one.title: one for block in section.blocks if block["kind"] == "charts" for one in block["charts"]}


def tables_of(section):
    return [block["table"] for block in section.blocks if block["kind"] == "table"]


def test_curves_of_a_run_in_two_stages(trained):
    runs = Runs([trained["mf-deca-p"], trained["ease-normal"]])  # the second has no epochs
    section = Section("Training")
    learning(runs, section)
    charts = charts_of(section)
    assert set(charts) == {"Validation ndcg@20", "Training loss of mf + deca-p"}
    rows = charts["Training loss of mf + deca-p"].data.rows
    points = curves(runs.runs[0].recommender.history, "loss")
    assert [row[1:3] for row in rows] == [(point.epoch, point.mean) for point in points]
    assert {row[0] for row in rows} == {"mf + deca-p 1/2", "mf + deca-p 2/2"}
    assert any("stage 2/2" in text for block in section.blocks for text in block.get("paragraphs", ()))


def test_one_epoch_is_a_sentence_and_no_chart(data):
    section = Section("Training")
    learning(Runs([("runs/x", accord.fit(data, "mf", "normal", epochs=1))]), section)
    assert charts_of(section) == {}
    said = [block["text"] for block in section.blocks if block["kind"] == "note"]
    assert [text.partition(":")[0] for text in said] == ["Validation ndcg@20", "Training loss of mf + normal"]
    assert all(text.endswith(" after 1 epoch.") for text in said)


def test_curves_by_hand():
    history = [
        {"stage": "1/1", "epoch": 1, "loss": [1.0, 3.0], "valid": None},
        {"stage": "1/1", "epoch": 2, "loss": [None, 1.0]},
    ]
    points = curves(history, "loss")
    assert [(one.epoch, one.mean, one.low, one.high) for one in points] == [(1, 2.0, 1.0, 3.0), (2, 1.0, 1.0, 1.0)]
    assert curves(history, "valid") == []


def test_probabilities_are_the_methods_own(trained):
    runs = Runs([trained["mf-normal"], trained["mf-deca-p"], trained["ease-normal"]])
    section = Section("Which interactions are real")
    probabilities(runs, section)
    how_much, *extremes = tables_of(section)
    names = [row[0] for row in how_much.rows]
    assert names == ["mf + normal", "mf + deca-p", "popularity of the item"]  # ease gives no probability
    beliefs = runs.runs[1].beliefs
    assert how_much.rows[1][1:3] == (f"{beliefs.mean():.3f}", f"{(beliefs < 0.5).mean():.1%}")
    assert len(extremes) == 4
    least = extremes[2]
    assert float(least.rows[0][-1]) == np.round(beliefs.min(), 4)
    assert least.columns == ("user", "item", "title", "value", "interactions of the user", "of the item", "probability")
    run = runs.runs[1].recommender
    (user,), (item,) = run.users.rows([least.rows[0][0]]), run.items.rows([least.rows[0][1]])
    assert least.rows[0][4:6] == (f"{run.train.counts[user]:,}", f"{run.train.popularity()[item]:,}")
    assert len([title for title in charts_of(section) if "mf" in title]) == 2
