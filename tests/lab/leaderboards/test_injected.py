"""Noise that is put into training data, from the runs to the page."""

from __future__ import annotations

import numpy as np
import pytest

from accord.comparing.results import Results
from accord.errors import InputError
from accord_lab.leaderboards import injected
from accord_lab.leaderboards.injected import SOLVED, NoiseRuns, _panels
from accord_lab.names import percent_sd
from comparisons import ask, rated, titled


def test_injected_noise_from_runs_to_page(data, tmp_path):
    parts = injected.run(
        [rated(data), data], ask, tmp_path, ["mf"], ["normal", "rce"], trials=0, kinds=["uniform"], rates=[0.2, 0.4]
    )
    lines = Results(tmp_path, "injected").read()
    assert len(lines) == 3 * 6 + 2 * 6
    assert {(line["injected"]["kind"], line["injected"]["rate"]) for line in lines if line["dataset"] == "rated"} == {
        ("none", 0.0), ("uniform", 0.2), ("uniform", 0.4),
    }  # fmt: skip
    table = titled(parts, "what the noise costs")
    runs = [x for x in lines if (x["dataset"], x["model"], x["method"]) == ("rated", "mf", "rce")]
    clean = [x["injected"]["ndcg@20"]["uniform 0.4"] for x in runs if x["injected"]["kind"] == "none"]
    noisy = [x["metrics"]["ndcg@20"] for x in runs if x["injected"]["rate"] == 0.4]
    change = np.mean(np.array(noisy) / np.array(clean) - 1)
    row = next(row for row in table.rows if row[0] == "MF + R-CE")
    assert row[table.columns.index("uniform 40%")].startswith(f"{change:+.1%}")
    assert {path.suffix for path in tmp_path.glob("injected*")} == {
        ".json", ".jsonl", ".md", ".html", ".csv", ".tex", ".svg",
    }  # fmt: skip
    page = (tmp_path / "injected.html").read_text()
    injected.render(tmp_path)
    assert (tmp_path / "injected.html").read_text() == page
    with pytest.raises(InputError, match="--rates are shares"):
        injected.run([data], ask, tmp_path, rates=[1.0])
    with pytest.raises(InputError, match=r"'uniform 0\.3'.* another --out"):
        injected.run([rated(data)], ask, tmp_path, ["mf"], ["normal"], trials=0, kinds=["uniform"], rates=[0.3])


def test_the_loss_is_against_the_same_seed_without_noise():
    clean = [{"metrics": {"ndcg@20": 0.3}, "injected": {"ndcg@20": {"uniform 0.2": value}}} for value in (0.2, 0.4)]
    noisy = [{"metrics": {"ndcg@20": value}, "noise": {"auc": value}} for value in (0.1, 0.3)]
    rows = {("mf", "normal"): {("none", 0.0): clean, ("uniform", 0.2): noisy}}
    found = NoiseRuns("Data", rows, {("uniform", 0.2): "uniform 0.2"})
    assert found.noises == [("uniform", 0.2)]
    assert found.loss(("mf", "normal"), ("uniform", 0.2)) == pytest.approx([-0.5, -0.25])
    assert found.noise(("mf", "normal"), ("uniform", 0.2), "auc") == pytest.approx([0.1, 0.3])
    assert found.noise(("mf", "normal"), ("uniform", 0.2), "ece") is None
    assert percent_sd(np.array([-0.5, -0.25])) == "-37.5% ± 17.7%"


def test_solved_models_have_panels_of_their_own():
    values = np.array([0.5, 0.7])
    rows = [("gmf", "normal"), ("item-knn", None), ("ease", None)]
    found = NoiseRuns("a log", {row: {("uniform", 0.1): [], ("uniform", 0.2): []} for row in rows}, {})
    panels = _panels(found, lambda row, where: values)
    assert {panel: list(curves) for panel, curves in panels.items()} == {
        ("gmf", "uniform"): ["normal", "ease"],
        (SOLVED, "uniform"): ["item-knn", "ease"],
    }
    only = NoiseRuns("a log", {("ease", None): {("uniform", 0.1): []}}, {})
    assert list(_panels(only, lambda row, where: values)) == [(SOLVED, "uniform")]
