"""Callbacks: who is told how a training goes, and an example with MLflow."""

from __future__ import annotations

import re
import sys
from unittest.mock import MagicMock

import pytest

import accord
from accord.training.callbacks import watched_by
from documents import BLOCK, ROOT
from helpers import small_data


class Recorder(accord.Callback):
    def __init__(self):
        self.said = []

    def on_start(self, settings):
        self.said.append(("start", settings["model"], settings["method"], settings["seeds"]))

    def on_epoch(self, progress):
        self.said.append(("epoch", progress.epoch, progress.epochs))

    def on_metrics(self, metrics):
        self.said.append(("metrics", dict(metrics)))


def test_a_recorder_is_told_of_the_start_each_epoch_and_the_metrics():
    recorder, other = Recorder(), Recorder()
    rec = accord.fit(small_data(), "mf", "normal", epochs=2, options={"model.dim": 4}, callbacks=[recorder, other])
    metrics = ("metrics", rec.metrics["mean"])
    assert recorder.said == [("start", "mf", "normal", [2019]), ("epoch", 1, 2), ("epoch", 2, 2), metrics]
    assert other.said == recorder.said


def test_what_is_solved_tells_how_far_it_is():
    recorder = Recorder()
    accord.fit(small_data(), "auto", options={"model.budget": 0.2}, callbacks=[recorder])
    kinds = [said[0] for said in recorder.said]
    assert kinds[0] == "start"
    assert kinds[-1] == "metrics"
    assert set(kinds[1:-1]) == {"epoch"}


def test_a_subclass_has_the_methods_that_it_needs():
    class Quiet(accord.Callback):
        pass

    rec = accord.fit(small_data(), "popularity", callbacks=[Quiet()])
    assert rec.metrics["mean"]
    assert watched_by([]) is None


def example() -> str:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(code for language, code in BLOCK.findall(page) if "import mlflow" in code)
    return re.sub(r"epochs=\d+", "epochs=1", code)


def test_the_example_with_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed; the example is run with a stand-in alone.")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())  # files, which mlflow-skinny has too
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    exec(example(), {})
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FINISHED"
    assert run.data.params["model"] == "gmf"
    assert {"loss", "recall_at_20"} <= set(run.data.metrics)


def test_the_example_with_a_stand_in_for_mlflow(monkeypatch):
    mlflow = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    exec(example(), {})
    assert mlflow.log_params.call_args.args[0]["model"] == "gmf"
    assert mlflow.log_metric.call_args_list[0].args[:1] == ("loss",)
    assert "recall_at_20" in mlflow.log_metrics.call_args.args[0]
