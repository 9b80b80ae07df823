"""The audit of a log of which some interactions have labels."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import accord
from accord.auditing import audit as auditing
from accord.auditing.detection import detection
from accord.auditing.interaction_log import open_log
from accord.auditing.noise import TO_LABEL, interactions_table, judge, label_table, noise_summary, side_table
from accord.evaluation.noise import auc
from accord.posteriors.estimate import next_labels
from audit_logs import clicks, estimate_of, random_frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log whose truth is in a file of its own, of which a part is given as labels."""
    folder = tmp_path_factory.mktemp("labels")
    table = pa.csv.read_csv(clicks(folder)).slice(0, 7_000)
    pa.csv.write_csv(table.select(["user", "item", "time"]), folder / "log.csv")
    some = table.filter(pa.array(np.random.default_rng(0).random(7_000) < 0.2)).rename_columns(
        ["user", "item", "label", "time", "note"]
    )
    pa.csv.write_csv(some.select(["user", "item", "label"]), folder / "some.csv")
    return folder, dict(
        zip(
            zip(*table.select(["user", "item"]).to_pydict().values(), strict=True),
            table.column("value").to_pylist(),
            strict=True,
        )
    )


@pytest.fixture(scope="module")
def judged(folder):
    path, truth = folder
    log = open_log(path / "log.csv", split="random", labels=path / "some.csv")
    real = np.array([truth[pair] for pair in zip(log.rows.users.to_pylist(), log.rows.items.to_pylist(), strict=True)])
    return log, judge(log), real


def test_p_real_comes_from_the_labels_of_other_pairs(judged):
    log, found, real = judged
    known = ~np.isnan(log.label)
    assert 1_300 < known.sum() < 1_500
    assert (log.label[known] == real[known]).all()
    assert found.used
    assert auc(found.p_real[~known], real[~known] > 0) > 0.75
    assert 0.7 < auc(found.p_real[known], real[known] > 0) < 0.97, "what the other labels say of it"
    np.testing.assert_array_equal(found.label, log.label)


def test_rates_and_tables_with_labels(judged):
    log, found, _ = judged
    summary = noise_summary(log, found, *(side_table(log, found, side) for side in ("user", "item")))
    assert summary["labels"]["used"]
    assert summary["rate"] == pytest.approx(1 - found.p_real.mean())
    assert summary["low"] <= summary["rate"] <= summary["high"]
    table = interactions_table(log, found)
    assert table.column_names[5:9] == ["basis", "agree", "of", "label"]
    assert set(table.column("basis").to_pylist()) == {"labels"}
    assert table.column("label").null_count == np.isnan(log.label).sum()


def test_detection_is_by_the_labels(judged):
    log, found, real = judged
    summary = detection(log, found, log.truth)
    assert summary["by"] == "labels"
    assert (summary["real"], summary["noise"]) == ("label 1", "label 0")
    known = ~np.isnan(log.label)
    assert summary["interactions"] == known.sum()
    assert [row["name"] for row in summary["scores"]][:3] == ["audit", "popularity", "without labels"]
    assert summary["scores"][0]["auc"] == pytest.approx(auc(found.p_real[known], real[known] > 0))


def test_what_to_label_next_is_unsure_and_of_everybody(judged, folder, tmp_path):
    log, found, _ = judged
    path, pairs = folder
    table = label_table(log, found)
    assert table.column_names == ["user", "item", "p_real", "label"]
    rows = table.slice(0, TO_LABEL)
    assert rows.column("label").null_count == TO_LABEL
    for name in ("user", "item"):
        assert len(set(rows.column(name).to_pylist())) == TO_LABEL
    assert np.abs(rows.column("p_real").to_numpy() - 0.5).max() < 0.2
    rest = table.slice(TO_LABEL)
    assert len(rest) == (~np.isnan(log.label)).sum()
    assert rest.column("label").null_count == 0
    # filled in, it is a file of labels
    made = accord.auditing.audit.write_table(tmp_path / "to_label.csv", table)
    assert made is None
    with (tmp_path / "to_label.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines[:TO_LABEL]:
        assert line["label"] == ""
    unfilled = open_log(path / "log.csv", split="random", labels=str(tmp_path / "to_label.csv"))
    np.testing.assert_array_equal(unfilled.label, log.label)
    for line in lines[:TO_LABEL]:
        line["label"] = pairs[(line["user"], line["item"])]
    with (tmp_path / "filled.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    again = open_log(path / "log.csv", split="random", labels=str(tmp_path / "filled.csv"))
    assert (~np.isnan(again.label)).sum() == (~np.isnan(log.label)).sum() + TO_LABEL


def test_where_users_and_items_run_out_others_follow():
    users, items = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])
    unsure = np.array([0.1, 0.2, np.nan, 0.15])
    assert next_labels(unsure, users, items, 10).tolist() == [1, 3, 0]
    assert next_labels(unsure, users, items, 1).tolist() == [1]


def test_without_labels_nothing_is_learned():
    log = open_log(random_frame())
    assert log.label is None
    table = label_table(log, estimate_of(log, np.full(len(log), 0.4)))
    assert table.column("label").null_count == len(table) == TO_LABEL


def test_labels_that_all_say_the_same_measure_nothing(tmp_path):
    frame = random_frame(label=lambda rng, keys: np.ones(len(keys)))
    log = open_log(frame)
    assert (log.label == 1).all()
    assert log.truth is None
    assert not judge(log).used
    assert "label" not in log.rows.names, "what judges is told no label"


def test_an_audit_with_labels(folder, tmp_path, monkeypatch):
    """End to end, without the verdict."""
    path, _ = folder
    monkeypatch.setattr(auditing, "verdict", lambda *_, **__: None)
    said = []
    made = accord.audit(
        path / "log.csv", labels=path / "some.csv", split="random", device="cpu", out=tmp_path / "a",
        say=said.append,
    )  # fmt: skip
    labels = made.summary["noise"]["labels"]
    assert labels["used"]
    assert labels["auc"] > labels["label_free_auc"]
    assert f"note: {labels['why']}" in said
    assert made.summary["detection"]["by"] == "labels"
    assert (tmp_path / "a" / "to_label.csv").read_text().startswith('"user","item","p_real","label"\n')
    page = (tmp_path / "a" / "report.html").read_text()
    assert "By the labels" in page
    assert "to_label.csv" in page
