"""The runs of a report, their tests and baselines."""

from __future__ import annotations

import numpy as np
import pytest

import accord
from accord.models.ease import EASE
from accord.models.sparse_ease import SparseEASE
from accord.report import accuracy
from accord.report import runs as runs_module
from accord.report.runs import Runs, fit_baseline


def test_runs_with_other_seeds_are_paired_by_user(data, trained):
    other = accord.fit(data, "mf", "wbpr", epochs=1, seeds=[7, 8, 9])
    runs = Runs([trained["mf-normal"], ("other", other)])
    found = runs.test(runs.runs[0], [runs.runs[1]])["mf + wbpr"]
    means = [one.evaluation.per_user["ndcg@20"].mean(0) for one in runs.runs]
    assert found.difference == pytest.approx(float((means[1] - means[0]).mean()))


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_a_baseline_is_the_model_of_that_name(trained, data, model):
    baseline = fit_baseline(model, trained["mf-normal"][1], [20])
    fitted = accord.fit(data, model, ks=[20])
    assert baseline.evaluation.mean()[0] == fitted.metrics["mean"]


def baselines_of(*runs):
    return [one.name for one in Runs(list(runs)).baselines]


def test_one_run_is_compared_with_popularity_and_ease(trained, monkeypatch):
    assert baselines_of(trained["mf-normal"]) == ["popularity", "ease"]
    assert baselines_of(trained["ease-normal"]) == ["popularity"]
    assert baselines_of(trained["mf-normal"], trained["mf-deca-p"]) == ["popularity"]
    monkeypatch.setattr(runs_module, "MOST_SECONDS", 0)  # as if EASE took too long
    assert baselines_of(trained["mf-normal"]) == ["popularity"]


def test_ease_is_not_left_out_without_a_word(trained, monkeypatch):
    def notes():
        return " ".join(accuracy._means(Runs([trained["mf-normal"]])).notes)

    assert "EASE" not in notes()
    monkeypatch.setattr(EASE, "most_items", 3)
    assert baselines_of(trained["mf-normal"]) == ["popularity", "sparse-ease"]
    assert "more than 30 seconds on this data: sparse-ease stands for it." in notes()
    monkeypatch.setattr(SparseEASE, "most_items", 3)
    assert baselines_of(trained["mf-normal"]) == ["popularity"]
    assert "more than 30 seconds on this data: it is left out." in notes()


def test_coverage_counts_what_is_recommended(trained):
    run = trained["mf-normal"][1]
    entry = Runs([trained["mf-normal"]]).runs[0]
    lists = run.recommend(k=20)
    warm = run.users.take(np.flatnonzero(run.train.counts)).to_pylist()
    counted = [row["item"] for row in lists.to_pylist() if row["user"] in set(warm)]
    assert entry.recommended.sum() == len(counted)
    assert entry.coverage == len(set(counted)) / len(run.items)
