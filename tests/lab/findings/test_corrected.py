"""The conclusions, against the leaderboard's raw results read by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from reproduction import FOLDER, raw, words

BOARD = json.loads((FOLDER / "corrected/leaderboard.json").read_text())
PAGE = words("corrected/README.md")
NAMES = {"ml-100k": "MovieLens-100k", "modcloth": "Modcloth", "adressa": "Adressa"}


def test_how_often_the_ensemble_helps():
    tests = [
        test for dataset in NAMES for row, test in BOARD[dataset]["tests"]["normal"].items() if row.endswith("Ensemble")
    ]
    better = sum(test["p_holm"] < 0.05 and test["difference"] > 0 for test in tests)
    worse = sum(test["p_holm"] < 0.05 and test["difference"] < 0 for test in tests)
    assert f"significantly better than Normal in {better} of {len(tests)} rows" in PAGE
    assert f"and significantly worse in {worse}." in PAGE


@pytest.mark.parametrize(("dataset", "name"), [*NAMES.items(), ("demo", "Built-in data")])
def test_what_the_default_reaches(dataset, name):
    lines = raw("corrected/leaderboard.jsonl", dataset=dataset)
    auto, ease = (next(line["metrics"]["ndcg@20"] for line in lines if line["model"] == m) for m in ("auto", "ease"))
    assert f"**{name}: {auto:.4f}**, against {ease:.4f} of EASE (p".replace(" 0.", " .") in PAGE
    tests = BOARD[dataset]["tests"]["auto"].values()
    below, above = (sum(test["p_holm"] < 0.05 and sign * test["difference"] > 0 for test in tests) for sign in (-1, 1))
    assert f"Of {len(tests)} other rows {below} are significantly below it and {above} above" in PAGE


@pytest.mark.parametrize("dataset", NAMES)
def test_what_deca_changes(dataset):
    means = {}
    for line in raw("corrected/leaderboard.jsonl", dataset=dataset):
        means.setdefault((line["model"], line["method"]), []).append(line["metrics"]["ndcg@20"])
    mean = {row: sum(values) / len(values) for row, values in means.items()}
    changes = [
        100 * (mean[model, method] / mean[model, "normal"] - 1)
        for model, method in mean
        if method in ("deca", "deca-p")
    ]
    told = f"change NDCG@20 by {min(changes):+.1f}% to {max(changes):+.1f}%".replace("-", "−")
    assert f"{NAMES[dataset]}: DeCA and DeCA(p) {told}" in PAGE


def test_trials_p_and_the_ceiling_are_said():
    trials = Counter((line["dataset"], line["model"]) for line in raw("corrected/tuning.jsonl", model="ease"))
    for dataset in ("ml-100k", "modcloth"):
        assert f"{trials[dataset, 'ease']} on {NAMES[dataset]}" in PAGE
    assert "These weights and penalties are the best that were found on the test itself" in PAGE
    board = words("corrected/leaderboard.md")
    assert "its weights and its penalty the best found on the test itself" in board
    assert "p is that of a normal approximation" in board


@pytest.mark.parametrize("dataset", NAMES)
def test_the_smallest_difference_that_was_significant(dataset):
    tests = BOARD[dataset]["tests"]["normal"].values()
    smallest = min(abs(test["difference"]) for test in tests if test["p_holm"] < 0.05)
    assert f"the smallest that is significant is {smallest:.4f}".replace(" 0.", " .") in PAGE


def test_what_the_readme_of_the_project_says_of_the_default():
    tests = {dataset: BOARD[dataset]["tests"]["auto"] for dataset in (*NAMES, "demo")}
    rows = sum(len(own) for own in tests.values())
    above = [
        (dataset, test["difference"])
        for dataset, own in tests.items()
        for test in own.values()
        if test["p_holm"] < 0.05 and test["difference"] > 0
    ]
    ((own,),) = {(dataset,) for dataset, _ in above}
    (auto,) = raw("corrected/leaderboard.jsonl", dataset=own, model="auto")
    by = sorted(100 * difference / auto["metrics"]["ndcg@20"] for _, difference in above)
    ease = sum(own["EASE"]["p_holm"] < 0.05 and own["EASE"]["difference"] < 0 for own in tests.values())
    assert (len(tests), ease, own) == (4, 3, "adressa")
    said = " ".join((FOLDER.parents[1] / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"it is significantly above EASE on three; of {rows} other rows {len(above)} are significantly above it, "
        f"all on Adressa, by {by[0]:.1f} to {by[-1]:.1f}%."
    ) in said
    assert "On [four logs, with every row tuned]" in said


def test_what_the_readme_of_the_project_says():
    """The most that DeCA and DeCA(p) change, in one sentence."""
    most = {}
    for dataset in NAMES:
        means = {}
        for line in raw("corrected/leaderboard.jsonl", dataset=dataset):
            means.setdefault((line["model"], line["method"]), []).append(line["metrics"]["ndcg@20"])
        mean = {row: sum(values) / len(values) for row, values in means.items()}
        most[dataset] = max(
            100 * (mean[row] / mean[row[0], "normal"] - 1) for row in mean if row[1] in ("deca", "deca-p")
        )
    assert most["ml-100k"] < 0
    told = f"gain at most {most['modcloth']:.1f}% on Modcloth and {most['adressa']:.1f}% on Adressa"
    assert told in " ".join((FOLDER.parents[1] / "README.md").read_text(encoding="utf-8").split())


def test_popularity_or_ease_beats_the_paper_on_two_datasets():
    """The other sentence of the README: every figure of the overall table, by the one or by the other."""
    import accord_lab.paper

    paper = accord_lab.paper.figures("published")["overall"]
    beaten = []
    for dataset, models in paper.items():
        if dataset not in NAMES:
            continue
        best = {}
        for methods in models.values():
            for figures in methods.values():
                for metric, figure in figures.items():
                    best[metric] = max(best.get(metric, 0), figure["mean"])
        for model in ("popularity", "ease"):
            (line,) = raw("published/overall.jsonl", dataset=dataset, model=model)
            if all(line["metrics"][metric] > value for metric, value in best.items()):
                beaten.append(dataset)
    assert sorted(beaten) == ["ml-100k", "modcloth"]
