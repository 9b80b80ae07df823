"""What version 0.1.0 wrote is read, and gives the answers that 0.1.0 gave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import accord

OLD = Path(__file__).parent / "fixtures" / "v0.1.0"
ANSWERS = json.loads((OLD / "answers.json").read_text(encoding="utf-8"))
RUNS = ("gmf-deca-p", "cdae-deca", "ease", "popularity")


def same_lists(found, answered):
    assert {name: found[name] for name in found if name != "score"} == {
        n: answered[n] for n in answered if n != "score"
    }
    assert found["score"] == pytest.approx(answered["score"], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_folder(name):
    answers, run = ANSWERS[name], accord.Recommender.load(OLD / name)
    same_lists(run.recommend([*run.users.ids[:3].to_pylist(), "nobody"], k=5).to_pydict(), answers["lists"])
    folded = run.recommend(["new"], k=5, history={"new": run.items.ids[:3].to_pylist()})
    same_lists(folded.to_pydict(), answers["history"])
    assert run.metrics["mean"] == answers["mean"]
    if "p_real" in answers:
        clicks = accord.load(OLD / "clicks.csv", clean="value>=1")
        found = run.beliefs(clicks.train).column("belief").to_pylist()[:20]
        assert found == pytest.approx(answers["p_real"], rel=1e-5, abs=1e-6)


def test_a_run_folder_saved_again_is_the_same_run(tmp_path):
    accord.Recommender.load(OLD / "gmf-deca-p").save(tmp_path / "again")
    one, other = (accord.Recommender.load(place) for place in (OLD / "gmf-deca-p", tmp_path / "again"))
    assert one.recommend(k=5).equals(other.recommend(k=5))


def test_a_store():
    answers, data = ANSWERS["store"], accord.load(OLD / "store", clean="value>=1")
    assert data.counts() == answers["counts"]
    found = data.train.users.to_pylist(), data.train.items.to_pylist(), data.train.column("value").tolist()
    assert [column[:10] for column in found] == answers["train"]
    assert accord.fit(data, "ease", ks=[5], device="cpu").metrics["mean"] == pytest.approx(answers["ease"])


def test_results_of_a_comparison_are_taken_over(tmp_path):
    """The same command goes on from the old file: nothing is trained again, nothing is written over."""
    from typer.testing import CliRunner

    from accord.cli.app import app

    shutil.copytree(OLD / "compare", tmp_path / "compare")
    before = (tmp_path / "compare" / "results.jsonl").read_text(encoding="utf-8")
    words = ["compare", str(OLD / "clicks.csv"), "--clean", "value>=1", "--models", "gmf", "--methods", "normal"]
    words += ["--seeds", "1", "--epochs", "1", "--device", "cpu", "--set", "model.dim=4"]
    found = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "compare")], catch_exceptions=False)
    assert found.exit_code == 0
    assert "1 of" not in found.output
    assert (tmp_path / "compare" / "results.jsonl").read_text(encoding="utf-8") == before
