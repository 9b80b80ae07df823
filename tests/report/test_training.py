"""How runs were trained, as a section of a report."""

from __future__ import annotations

import accord
from accord.report.page import Section
from accord.report.runs import Runs
from accord.report.training import points, training


def charts_of(section):
    return {one.title: one for block in section.blocks if block["kind"] == "charts" for one in block["charts"]}


def test_curves_of_a_run_in_two_stages(trained):
    runs = Runs([trained["mf-deca-p"], trained["ease-normal"]])  # the second has no epochs
    section = Section("Training")
    training(runs, section)
    charts = charts_of(section)
    assert set(charts) == {"Validation ndcg@20", "Training loss of mf + deca-p"}
    rows = charts["Training loss of mf + deca-p"].data.rows
    expected = points(runs.runs[0].recommender.history, "loss")
    assert [row[1:3] for row in rows] == [(point["epoch"], point["mean"]) for point in expected]
    assert {row[0] for row in rows} == {"mf + deca-p 1/2", "mf + deca-p 2/2"}
    assert any("stage 2/2" in text for block in section.blocks for text in block.get("paragraphs", ()))


def test_one_epoch_is_a_sentence_and_no_chart(data):
    section = Section("Training")
    training(Runs([("runs/x", accord.fit(data, "mf", "normal", epochs=1))]), section)
    assert charts_of(section) == {}
    said = [block["text"] for block in section.blocks if block["kind"] == "note"]
    assert [text.partition(":")[0] for text in said] == ["Validation ndcg@20", "Training loss of mf + normal"]
    assert all(text.endswith(" after 1 epoch.") for text in said)


def test_curves_by_hand():
    history = [
        {"stage": "1/1", "epoch": 1, "loss": [1.0, 3.0], "valid": None},
        {"stage": "1/1", "epoch": 2, "loss": [None, 1.0]},
    ]
    assert [tuple(one.values())[1:] for one in points(history, "loss")] == [(1, 2.0, 1.0, 3.0), (2, 1.0, 1.0, 1.0)]
    assert points(history, "valid") == []
