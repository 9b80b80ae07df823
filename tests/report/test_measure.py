"""What a report says of a run, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.report import measure
from accord.report.measure import Runs, Values


def test_runs_with_other_seeds_are_paired_by_user(data, trained):
    other = accord.fit(data, "mf", "wbpr", epochs=1, seeds=[7, 8, 9])
    runs = Runs([trained["mf-normal"], ("other", other)])
    found = runs.test(runs.runs[0], [runs.runs[1]])["mf + wbpr"]
    means = [one.evaluation.per_user["ndcg@20"].mean(0) for one in runs.runs]
    assert found.difference == pytest.approx(float((means[1] - means[0]).mean()))


def test_gini_by_hand():
    assert measure.gini(np.array([5, 5, 5, 5])) == 0
    assert measure.gini(np.array([0, 0, 0, 8])) == pytest.approx(0.75)
    assert measure.gini(np.array([1, 3])) == pytest.approx(0.25)
    assert measure.gini(np.array([0, 0])) == 0


def test_tenths_by_hand():
    popularity = np.arange(20)[::-1].copy()  # item 0 is the most popular
    counts = np.zeros(20, dtype=np.int64)
    counts[[0, 1, 19]] = [6, 2, 2]
    assert measure.by_tenth(counts, popularity) == [0.2, *[0.0] * 8, 0.8]


def test_values_are_grouped_only_where_there_are_many(trained, data):
    run = trained["mf-normal"][1]
    values = Values.of(run.trained_on)
    assert values.names == ["0", "1"]
    assert (values.group == data.train.column("value")).all()
    many = np.linspace(0, 100, len(data.train))
    table = data.train.table.set_column(2, "value", pa.array(many))
    other = accord.fit(replace(data, train=accord.Interactions(table)), "popularity")
    values = Values.of(other.trained_on)
    assert values.names[0] == "0 to 20"
    assert np.ptp(np.bincount(values.group)) <= 2  # fifths of equal size


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_what_is_beside_a_run_is_the_model_of_that_name(trained, data, model):
    beside = measure.fitted_beside(model, trained["mf-normal"][1], [20])
    fitted = accord.fit(data, model, ks=[20])
    assert beside.evaluation.mean()[0] == fitted.metrics["mean"]


def test_one_run_is_beside_popularity_and_ease(trained, monkeypatch):
    assert Runs([trained["mf-normal"]]).beside == ["popularity", "ease"]
    assert Runs([trained["ease-normal"]]).beside == ["popularity"]
    assert Runs([trained["mf-normal"], trained["mf-deca-p"]]).beside == ["popularity"]
    monkeypatch.setattr(measure, "MOST_SECONDS", 0)  # as if EASE took too long
    assert Runs([trained["mf-normal"]]).beside == ["popularity"]


def test_coverage_counts_what_is_recommended(trained):
    run = trained["mf-normal"][1]
    found = measure.Recommended.of(run, 5)
    lists = run.recommend(k=5)
    warm = run.users.take(np.flatnonzero(run.train.counts)).to_pylist()
    counted = [row["item"] for row in lists.to_pylist() if row["user"] in set(warm)]
    assert found.counts.sum() == len(counted)
    assert found.coverage == len(set(counted)) / len(run.items)
