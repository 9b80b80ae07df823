"""Labels in training: the same runs with and without, paired; the committed page is what its raw lines say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from accord.comparing.results import keep_lines
from accord.data.interactions import Interactions
from accord.errors import InputError
from accord_lab.labels import training
from accord_lab.labels.draws import drawn_labels
from helpers import small_data

SMALL = {"models": ["mf"], "methods": ["deca"]}
PAGE = Path(__file__).parents[3] / "docs" / "reproduction" / "labels"


@pytest.fixture(scope="module")
def stars():
    """Small data with ratings of 1 to 5."""
    data = small_data()
    real = data.train.column("value").astype(float)
    value = np.where(real == 1, 4, 1) + np.random.default_rng(0).integers(0, np.where(real == 1, 2, 3))
    return replace(data, train=Interactions.of(data.train.users, data.train.items, value.astype(float), label=real))


def test_one_line_per_run_and_none_twice(stars, tmp_path):
    lines = training.run(stars, 2, tmp_path, "cpu", lambda _: None, **SMALL)
    keys = [(line["method"], line["labels"], line["seed"]) for line in lines]
    assert keys == [("deca", labels, seed) for labels in ("none", "binary") for seed in (2019, 2020)]
    for line in lines:
        assert 0 <= line["ndcg@20"] <= 1
        assert 0 < line["auc"] < 1
        number = line["seed"] - 2019
        given = (~np.isnan(drawn_labels(stars, 0.05, "random", number))).sum() if line["labels"] != "none" else 0
        assert line["given"] == given
    again = training.run(stars, 2, tmp_path, "cpu", pytest.fail, **SMALL)
    assert again == lines
    (table,) = training.tables(lines)
    assert len(table.rows) == 1


def test_differences_are_paired_by_seed():
    line = {"dataset": "d", "model": "mf", "method": "normal", "auc": 0.6}
    lines = [
        line | {"labels": labels, "seed": seed, "ndcg@20": value}
        for labels, values in (("none", (0.1, 0.2, 0.3)), ("binary", (0.11, 0.22, 0.33)))
        for seed, value in enumerate(values)
    ]
    (table,) = training.tables(lines)
    ((*_, without, given, gained, change, p, _, _),) = table.rows
    assert (without, given, gained) == ("0.2000 ± 0.1000", "0.2200 ± 0.1100", "+0.0200")
    assert (change, p, table.marked) == ("+10.0%", "0.074", frozenset())
    lines[-1]["ndcg@20"] = 0.315
    (table,) = training.tables(lines)
    assert (table.rows[0][6], table.marked) == ("+7.5%", {(0, 5)})


def test_data_without_labels_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no labels to draw from"):
        training.run(small_data(), 1, tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    lines = [json.loads(line) for line in (PAGE / "training.jsonl").read_text().splitlines()]
    keep_lines(tmp_path / "training.jsonl", lines)
    training.render(tmp_path)
    assert (tmp_path / "training.md").read_text() == (PAGE / "training.md").read_text()


def test_the_docs_say_what_labels_in_training_are_worth():
    lines, grades = (
        [json.loads(line) for line in (PAGE / f"{name}.jsonl").read_text().splitlines()]
        for name in ("training", "grades")
    )

    def by_seed(dataset, model, method, labels):
        key = {"dataset": dataset, "model": model, "method": method, "labels": labels}
        return {line["seed"]: line["ndcg@20"] for line in lines + grades if key.items() <= line.items()}

    def mean(*key):
        return fmean(by_seed(*key).values())

    def gain(dataset, model, labels):
        """Of the form with grades over DeCA that is told real or noise, and p of a paired test."""
        before, after = by_seed(dataset, model, "deca", "binary"), by_seed(dataset, model, "deca-grades", labels)
        gains = [after[seed] - before[seed] for seed in before]
        return fmean(gains), ttest_1samp(gains, 0).pvalue

    page = " ".join((PAGE.parents[1] / "method.md").read_text().split())
    (given,) = training.tables(lines)
    significant = [given.rows[row] for row, _ in sorted(given.marked)]
    assert not [row for row in significant if row[5].startswith("+")]
    assert [row[:3] for row in significant] == [("ml-100k", "gmf", "normal"), ("ml-100k", "gmf", "tce")]
    shares = [json.loads(line) for line in (PAGE / "labels.jsonl").read_text().splitlines()]
    for name in ("ml-100k", "modcloth"):
        best = max(line["ndcg@20"] for line in lines if line["dataset"] == name)
        assert best < min(line["ndcg@20"] for line in shares if (line["dataset"], line["share"]) == (name, 0.05))
    assert "in neither form are stars worth more than real or noise" in page
    assert "gains over DeCA even where it is told real or noise alone" in page
    assert "on Modcloth it gains nothing" in page
    for model in ("gmf", "mf"):
        for labels in ("binary", "graded"):
            gained, p = gain("modcloth", model, labels)
            assert gained <= 0 or p >= 0.05
        for method in ("deca", "deca-grades"):
            assert mean("ml-100k", model, method, "graded") < mean("ml-100k", model, method, "binary")
        gained, p = gain("ml-100k", model, "binary")
        assert gained > 0
        assert p < 0.05
        below = mean("ml-100k", model, "deca-grades", "binary")
        assert below < mean("ml-100k", model, "normal", "none"), "and stays below plain training"
