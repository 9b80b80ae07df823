"""The conclusions, against the leaderboard's raw results read by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from reproduction import FOLDER, metric, raw, rows, words

BOARD = json.loads((FOLDER / "corrected/leaderboard.json").read_text())
NAMES = {"ml-100k": "MovieLens-100k", "modcloth": "Modcloth", "adressa": "Adressa"}


def test_how_often_each_method_helps():
    shown = {row[0]: row for row in rows("corrected/README.md", "gains")}
    for method in ("Ensemble", "WBPR", "DeCA", "EARD"):
        for place, dataset in enumerate(NAMES):
            tests = [test for row, test in BOARD[dataset]["tests"]["normal"].items() if row.endswith(f" + {method}")]
            assert len(tests) == 5
            better, worse = (
                sum(test["p_holm"] < 0.05 and sign * test["difference"] > 0 for test in tests) for sign in (1, -1)
            )
            assert shown[method][1 + 2 * place] == f"{better} above, {worse} below"


@pytest.mark.parametrize(("dataset", "name"), [*NAMES.items(), ("demo", "Built-in data")])
def test_what_the_default_reaches(dataset, name):
    lines = raw("corrected/leaderboard.jsonl", dataset=dataset)
    auto, ease = (next(line["metrics"]["ndcg@20"] for line in lines if line["model"] == m) for m in ("auto", "ease"))
    row = next(row for row in rows("corrected/README.md", "default") if row[0] == name)
    assert row[1] == f"{auto:.4f}"[1:]
    assert row[2].startswith(f"{ease:.4f} (p"[1:])
    tests = BOARD[dataset]["tests"]["auto"].values()
    below, above = (sum(test["p_holm"] < 0.05 and sign * test["difference"] > 0 for test in tests) for sign in (-1, 1))
    assert row[-3:] == [str(len(tests)), str(below), str(above)]


def means_of(dataset):
    means = {}
    for line in raw("corrected/leaderboard.jsonl", dataset=dataset):
        means.setdefault((line["model"], line["method"]), []).append(line["metrics"]["ndcg@20"])
    return {row: sum(values) / len(values) for row, values in means.items()}


@pytest.mark.parametrize("dataset", NAMES)
def test_what_deca_changes(dataset):
    mean = means_of(dataset)
    shown = {row[0]: row for row in rows("corrected/README.md", "gains")}
    for method, name in (("deca", "DeCA"), ("deca-p", "DeCA(p)")):
        changes = [100 * (mean[row] / mean[row[0], "normal"] - 1) for row in mean if row[1] == method]
        expected = f"{min(changes):+.1f}% to {max(changes):+.1f}%".replace("-", "−")
        assert shown[name][2 + 2 * list(NAMES).index(dataset)] == expected
    best = max((row for row in mean if row[1] != "none"), key=mean.__getitem__)
    row = next(row for row in rows("corrected/README.md", "best-rows") if row[0] == NAMES[dataset])
    assert row[1].endswith(f", {mean[best]:.4f}".replace("0.", "."))
    if dataset != "adressa":
        (oracle,) = raw("corrected/leaderboard.jsonl", dataset=dataset, model="ease-told")
        room = oracle["metrics"]["ndcg@20"] - mean["ease", "none"]
        assert row[-1] == f"{100 * (mean[best] - mean['ease', 'none']) / room:+.0f}%".replace("-", "−")


def test_trials_p_and_the_ceiling_are_said():
    trials = Counter((line["dataset"], line["model"]) for line in raw("corrected/tuning.jsonl", model="ease"))
    for dataset in NAMES:
        row = next(row for row in rows("corrected/README.md", "budget") if row[0] == NAMES[dataset])
        assert row[4] == str(trials[dataset, "ease"])
        tests = BOARD[dataset]["tests"]["normal"].values()
        smallest = min(abs(test["difference"]) for test in tests if test["p_holm"] < 0.05)
        assert row[5] == f"{smallest:.4f}"[1:]
    assert "These weights and penalties are the best on the test itself" in words("corrected/README.md")
    board = words("corrected/leaderboard.md")
    assert "its weights and its penalty the best on the test itself" in board
    assert "p is that of a normal approximation" in board


@pytest.mark.parametrize("dataset", ["ml-100k", "modcloth"])
def test_how_well_noise_is_detected(dataset):
    aucs = {}
    for line in raw("corrected/leaderboard.jsonl", dataset=dataset):
        if "noise" in line:
            aucs.setdefault((line["model"], line["method"]), []).append(line["noise"]["auc"])
    mean = {row: sum(values) / len(values) for row, values in aucs.items()}
    popular = mean["popularity", "none"]
    learned = [value for (_, method), value in mean.items() if method != "none"]
    shown = {row[0]: row for row in rows("corrected/README.md", "detection")}
    column = 1 + 2 * list(NAMES).index(dataset)
    assert shown["popularity"][column] == f"{popular:.3f}"[1:]
    assert shown["rows that reach popularity"][column] == f"{sum(v >= popular for v in learned)} of {len(learned)}"
    normal = [value for (_, method), value in mean.items() if method == "normal"]
    assert shown["Normal"][column] == f"{min(normal):.3f} to {max(normal):.3f}".replace("0.", ".")


@pytest.mark.parametrize("dataset", NAMES)
def test_what_stopping_in_time_explains(dataset):
    runs = raw("published/curves.jsonl", dataset=dataset, method="normal")
    curves = [[point["recall@20"] for point in line["curve"]] for line in runs]
    best = max(sum(points) / len(points) for points in zip(*curves, strict=True))
    ended, deca = (
        sum(values) / len(values)
        for values in (
            metric("published/overall.jsonl", dataset=dataset, model="gmf", method=m) for m in ("normal", "deca")
        )
    )
    row = next(row for row in rows("corrected/README.md", "why") if row[0] == NAMES[dataset])
    changes = [ended / best - 1, deca / ended - 1, deca / best - 1]
    assert [row[1], row[2], row[4]] == [f"{100 * one:+z.0f}%".replace("-", "−") for one in changes]


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
    assert "On [four logs with ten seeds and every other model tuned]" in said


def test_what_the_readme_of_the_project_says():
    """The most that DeCA and DeCA(p) change, in one sentence."""
    most = {}
    for dataset in NAMES:
        mean = means_of(dataset)
        most[dataset] = max(
            100 * (mean[row] / mean[row[0], "normal"] - 1) for row in mean if row[1] in ("deca", "deca-p")
        )
    assert most["ml-100k"] < 0
    told = f"gain at most {most['modcloth']:.1f}% on Modcloth and {most['adressa']:.1f}% on Adressa"
    assert told in " ".join((FOLDER.parents[1] / "README.md").read_text(encoding="utf-8").split())


def test_popularity_or_ease_beats_the_paper_on_two_datasets():
    """The other sentence of the README: every figure of the overall table, by the one or by the other."""
    import accord_lab.paper.settings

    paper = accord_lab.paper.settings.figures("published")["overall"]
    beaten = []
    for dataset, models in paper.items():
        if dataset not in NAMES:
            continue
        best = {}
        for methods in models.values():
            for figures in methods.values():
                for which, figure in figures.items():
                    best[which] = max(best.get(which, 0), figure["mean"])
        for model in ("popularity", "ease"):
            (line,) = raw("published/overall.jsonl", dataset=dataset, model=model)
            if all(line["metrics"][which] > value for which, value in best.items()):
                beaten.append(dataset)
    assert sorted(beaten) == ["ml-100k", "modcloth"]
